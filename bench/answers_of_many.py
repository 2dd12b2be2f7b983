"""A report of 1,000 nodes by `--answers`, with and without what each has of all the others."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from bench.contenders.ours import JUDGED
from bench.measure.rounds import interleaved
from bench.measure.run import Command
from bench.nodes.answers import changed_places, with_gpus
from bench.nodes.cluster import Node, nodes, write_site
from bench.nodes.probed import MARK, Section, framed, run_here, script, sections
from bench.page.results import Answers, Figures
from bench.places import BIN, HERE

MANY = 1000
ROUNDS = 3
# Where a site's script prints its answers, seen from the inventory.
_FOLDER = "answers"
_STAMP = re.compile(rf"^{MARK} script ([0-9a-f]+) ", re.MULTILINE)
# Lists of all nodes, in which each node has the same.
_OF_ALL = ("ssh.known", "ssh.hosts")
# The address from which a node reaches each other one.
_SOURCE = re.compile(r"^(source \S+) .*$", re.MULTILINE)


def compare(rounds: int = ROUNDS) -> Answers:
    """Measure the report of both, in turn. Raises Failed, NoAnswer."""
    folder = HERE / "many"
    try:
        sites = {
            name: written(folder / name, MANY, mesh=name == "mesh") for name in ("plain", "mesh")
        }
        commands = {name: drift(each) for name, each in sites.items()}
        series = interleaved(commands, dict.fromkeys(commands, rounds), folder / "run")
    finally:
        # Lists of all nodes are large.
        shutil.rmtree(folder, ignore_errors=True)
    return Answers(MANY, Figures.of(series["plain"]), Figures.of(series["mesh"]))


def drift(inventory: Path) -> Command:
    """Return the report of the answers beside an inventory, of which each has to be readable."""
    words = [str(BIN / "gpu-node"), "drift", inventory.name, *options()]
    return Command(words, inventory.parent, JUDGED)


def options() -> list[str]:
    """Return the options by which a report reads the answers beside its inventory."""
    return ["--answers", _FOLDER]


def written(folder: Path, number: int, mesh: bool) -> Path:
    """Write an inventory of so many nodes and the answer of each; return the inventory.

    The script runs once, on this machine, where the name of each node has its address.
    """
    hosts = [replace(node, address=node.second) for node in nodes(number)]
    login: dict[str, object] = {"user": "root"}
    inventory = write_site(folder, hosts, {"ssh": {**login, "mesh": True} if mesh else login})
    answer = run_here(script(inventory, folder / "probe"), hosts, folder / "home")
    found = sections(answer)
    found |= with_gpus(found)
    digest = _STAMP.findall(answer)[0]
    (folder / _FOLDER).mkdir(exist_ok=True)
    for host in hosts:
        text = stamp(digest, host) + framed(of_node(found, hosts[0], host))
        (folder / _FOLDER / f"{host.name}.txt").write_text(text)
    return inventory


def stamp(digest: str, node: Node) -> str:
    """Return the first line of an answer: each node is a separate machine."""
    return f"\n{MARK} script {digest} {node.name} {time.time():.0f} {node.name} {uuid4()}\n"


def of_node(found: Mapping[str, Section], first: Node, node: Node) -> dict[str, Section]:
    """Return the sections of the first node as another one prints them."""
    return {
        name: (code, coding, _text(name, text, first, node))
        for name, (code, coding, text) in found.items()
    }


def _text(name: str, text: str, first: Node, node: Node) -> str:
    if name in _OF_ALL:
        return text
    if name == "ssh.names":
        return _SOURCE.sub(rf"\1 {node.address}", text)
    return changed_places(text, first, node)
