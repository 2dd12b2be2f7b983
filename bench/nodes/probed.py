"""The scripts that `gpu-node probe` writes for an inventory, and the answer that one gives here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from bench.places import BIN

MARK = "@@gpu-node"
_BEGIN = re.compile(rf"^{MARK} begin (\S+) (\d+) (raw|hex) (\d+)\n", re.MULTILINE)
Section = tuple[int, str, str]


def script(inventory: Path, folder: Path) -> Path:
    """Return the script for an inventory's nodes, which are asked the same."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [BIN / "gpu-node", "probe", inventory, "-o", folder]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    files = {line.split("\t")[1] for line in (folder / "nodes.tsv").read_text().splitlines()}
    if len(files) != 1:
        raise AssertionError(f"the nodes are asked by {len(files)} scripts, not by the same one")
    return folder / files.pop()


def run_here(probe: Path, node: str, home: Path) -> str:
    """Return what a script prints on this machine for a node, with an empty home."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {"HOME": str(home), "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}
    environment["PATH"] += ":/sbin:/bin"
    done = subprocess.run(
        ["sh", str(probe), node],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        cwd=home,
        env=environment,
    )
    return done.stdout.decode()


def sections(answer: str) -> dict[str, Section]:
    """Return the sections of an answer by name: the exit code, the coding and the text."""
    found, position = {}, 0
    while begin := _BEGIN.search(answer, position):
        position = begin.end() + int(begin[4])
        found[begin[1]] = int(begin[2]), begin[3], answer[begin.end() : position]
    return found


def framed(found: dict[str, Section]) -> str:
    """Return sections as an answer has them, with its end."""
    parts = []
    for name, (code, coding, text) in found.items():
        parts.append(f"\n{MARK} begin {name} {code} {coding} {len(text)}\n{text}\n")
        parts.append(f"{MARK} end {name}\n")
    return "".join([*parts, f"\n{MARK} done\n"])
