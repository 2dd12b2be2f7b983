"""Stored answers: what the probe prints for the first node here, as each other node prints it.

The first node and another one change places: in the text, each one's name and addresses stand for
the other's. A machine without GPUs has the answers of `tests/facts/cases` about them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from bench.nodes.cluster import Node
from bench.nodes.probed import Section, framed, run_here, sections
from bench.places import REPOSITORY

# Sent with the time of now by answer.sh.
_LIVE = ("clock.begin", "clock.end")
_CASES = REPOSITORY / "tests/facts/cases"
_GPUS = {
    "driver.smi": "two_v100",
    "driver.library": "centos7",
    "driver.loaded": "proprietary",
    "nccl.gpus": "two_v100",
}


def write(folder: Path, probe: Path, hosts: Sequence[Node], home: Path) -> None:
    """Write ADDRESS.txt for each node."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    found = sections(run_here(probe, hosts, home))
    for name in _LIVE:
        del found[name]
    found |= with_gpus(found)
    for host in hosts:
        own = {
            name: (code, coding, changed_places(text, hosts[0], host))
            for name, (code, coding, text) in found.items()
        }
        (folder / f"{host.address}.txt").write_text(framed(own))


def with_gpus(found: Mapping[str, Section]) -> dict[str, Section]:
    """Return the sections about GPUs, of those that there are."""
    cases = {name: case for name, case in _GPUS.items() if name in found}
    files = {name: yaml.safe_load((_CASES / f"{name}.yml").read_text()) for name in cases}
    texts = {name: files[name][case]["output"] for name, case in cases.items()}
    return {name: (0, "raw", text.removesuffix("\n")) for name, text in texts.items()}


def changed_places(text: str, first: Node, other: Node) -> str:
    """Return a text in which two nodes have changed places."""
    pairs = {
        first.name: other.name,
        first.address: other.address,
        first.second: other.second,
        _hex(first.address): _hex(other.address),
        _hex(first.second): _hex(other.second),
    }
    pairs |= {value: key for key, value in pairs.items()}
    words = "|".join(re.escape(pair) for pair in pairs)
    return re.sub(rf"(?<![\w.-])({words})(?![\w-]|\.\d)", lambda found: pairs[found[1]], text)


def _hex(address: str) -> str:
    """Return an address as /proc/net/route has it."""
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
