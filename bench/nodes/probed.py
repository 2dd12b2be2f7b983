"""The scripts that `gpu-node probe` writes for an inventory, and the answer that one gives here."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.nodes.cluster import Node
from bench.nodes.root import as_root
from bench.places import BIN

HERE = Path(__file__).parent

MARK = "@@gpu-node"
_BEGIN = re.compile(rf"^{MARK} begin (\S+) (\d+) (raw|hex) (\d+)\n", re.MULTILINE)
# The exit code, the coding and the text.
Section = tuple[int, str, str]


class NoAnswer(Exception):
    """The probe does not run here; str() is the reason."""


def script(inventory: Path, folder: Path) -> Path:
    """Return the script for an inventory's nodes, which are asked the same."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [str(BIN / "gpu-node"), "probe", str(inventory), "-o", str(folder)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    files = {line.split("\t")[1] for line in (folder / "nodes.tsv").read_text().splitlines()}
    if len(files) != 1:
        raise AssertionError(f"the nodes are asked by {len(files)} scripts, not by the same one")
    return folder / files.pop()


def run_here(probe: Path, hosts: Sequence[Node], home: Path) -> str:
    """Return what a script prints for the first node, on this machine in private namespaces."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    names = home.with_name("hosts")
    lines = ["127.0.0.1 localhost", *(f"{host.second} {host.name}" for host in hosts)]
    names.write_text("\n".join([*lines, ""]))
    first = hosts[0]
    spaces = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"]
    # A node that is known by its second address has no other one.
    addresses = dict.fromkeys((first.address, first.second))
    words = [str(home), str(names), str(probe), first.name, *addresses]
    done = subprocess.run(
        [*as_root(), *spaces, "sh", str(HERE / "one.sh"), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise NoAnswer(f"the probe ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return done.stdout.decode()


def sections(answer: str) -> dict[str, Section]:
    """Return the sections of an answer by name."""
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
