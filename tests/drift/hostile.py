"""A hostile node for tests: whole answers of an honest one, of which a section is made another."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hypothesis import strategies as some

from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import NodeState, parse, sections
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import MARK, Section
from gpu_node.facts.probe.request import Copied, ProbeRequest
from gpu_node.facts.probe.rows import rows_of
from tests import case_files
from tests.drift.states import BASE

CASES = Path(__file__).parents[1] / "facts" / "cases"
NAME = "hostile-01"
PEERS = tuple(
    Peer(name=name, address=f"192.0.2.{number}")
    for number, name in enumerate(("a100-01", "v100-01", NAME), 10)
)
ENVIRONMENT = "/opt/dis"
NAMED = ProbeRequest(
    environments=(ENVIRONMENT,),
    nodes=PEERS,
    user="train",
    address=PEERS[2].address,
    mesh=True,
    variables=("OMP_NUM_THREADS",),
    trains_apart=True,
    directories=("/data",),
    below=(("/data", "775"),),
    workspace=Copied("/srv/work", "/srv/work", "a100-01"),
    packages=("nvidia-driver-535",),
)
ASKED: tuple[Section, ...] = sections(NAMED)
_PLACE = f"{ENVIRONMENT}\tnfs4\tnas:/opt\t7\t2026-11-21 17:37:02.400000000 +0000"
_LISTED = "-rw-r--r-- 12 2026/01/02 03:04:05 train.py\ndrwxr-xr-x 4096 2026/01/02 03:04:05 .\nend 0"
# What no case says.
_OTHERS = {
    "driver.packages": "nvidia-driver-535 535.154.05",
    "nccl.environment": json.dumps(BASE["environment"]),
    "nccl.places": f"environment\t{ENVIRONMENT}\n{_PLACE}",
    "workspace.directories": "/data\t755|train|train|||directory",
    "workspace.places": _PLACE,
    "workspace.below": "/data\t1\t2\t30\t0\t./a b",
    "workspace.room": "/srv/work\t1073741824",
    "workspace.pointers": "tree\t/srv/work\n./chatlm\t./chatlm/model.bin\nend\t0",
    "workspace.files": "base64\n" + base64.b64encode(gzip.compress(_LISTED.encode())).decode(),
}
# What stands where an honest node has a number, a word or a line.
ODD = (
    *("", "-1", "0", "9" * 30, "9" * 5000, "1e999", "-99999999999999", "nan", "inf", "٣", "²"),
    *("\t", "\n", "\x00", "\x1b[2J", "\u202e", "ü", "\\", "%s", "{}", "{", "[" * 3000, '"', "'"),
    *("/", "../..", "-", "*", "[a-", "((((.+)+)+)+)+Q", "x" * 3000, "a:b", "=", "!cut", "end 0"),
    *("0x10", "1.2.3", ":::", "999.999.999.999", "fe80::1%eth0", "gpu-node:hostile-01", "null"),
    *("true", "none", "a100-01", "ssh-rsa", "ssh-ü AAAA", MARK, f"\n{MARK} done"),
)


@cache
def answers() -> dict[str, tuple[str, ...]]:
    """Return the answers of every section that the cases have, an honest one at the head."""
    found: dict[str, list[str]] = {}
    for case in case_files.cases(CASES):
        is_odd = "unreadable" in case.data or case.data.get("rc", 0) != 0
        of_section = found.setdefault(case.subject, [])
        of_section.insert(len(of_section) if is_odd else 0, case.data["output"].rstrip("\n"))
    for each in ASKED:
        if each.about:  # the cases are about others
            found.setdefault(each.name, []).insert(
                0, "\n".join(f"pair {pair} 0 " for pair in each.about)
            )
    known = {name: tuple(texts) for name, texts in found.items()}
    return {each.name: known.get(each.name) or (_other(each.name),) for each in ASKED}


def _other(name: str) -> str:
    rows = {row.section.name: row.healthy for area in AREAS for row in rows_of(area)}
    return _OTHERS.get(name.partition(":")[0], rows.get(name, "1 2 3"))


def output(change: dict[str, str]) -> list[str]:
    """Return the lines of a whole answer, in which some sections say something else."""
    return "\n".join(_framed(change)).split("\n")


def _framed(change: dict[str, str]) -> Iterator[str]:
    for each in ASKED:
        text = change.get(each.name, answers()[each.name][0])
        if text.isascii() and text.isprintable():
            coding, coded = "raw", text
        else:
            coding, coded = "hex", text.encode("utf-8", "surrogateescape").hex()
        yield f"\n{MARK} begin {each.name} 0 {coding} {len(coded)}"
        yield f"{coded}\n{MARK} end {each.name}"
    yield f"\n{MARK} done"


def found(change: dict[str, str]) -> NodeState:
    """Return what is read of such an answer."""
    return parse(output(change), ASKED)


@some.composite
def mutated(draw: some.DrawFn, text: str) -> str:
    """Return an answer in which words, lines or bytes are others, are gone, or come twice."""
    for _ in range(draw(some.integers(1, 3))):
        how = draw(some.sampled_from(("word", "line", "bytes", "whole")))
        parts = text.split("\n") if how == "line" else _words(text)
        place = draw(some.integers(0, max(0, len(parts) - 1)))
        odd = draw(some.sampled_from(ODD))
        if how == "whole":
            text = draw(some.text(max_size=40)) if draw(some.booleans()) else odd
        elif how == "bytes":
            at = draw(some.integers(0, len(text)))
            text = text[:at] + odd + text[at + draw(some.integers(0, 4)) :]
        else:
            more = draw(some.sampled_from(((), (odd,), (parts[place],) * 2, (parts[place], odd))))
            parts[place : place + 1] = more
            text = ("\n" if how == "line" else "").join(parts)
    return text


def _words(text: str) -> list[str]:
    """Return words and what is between them, in their order."""
    parts = [""]
    for character in text:
        if character.isalnum() == parts[-1][-1:].isalnum():
            parts[-1] += character
        else:
            parts.append(character)
    return parts


@some.composite
def changes(draw: some.DrawFn) -> dict[str, str]:
    """Return one or two sections, and what a hostile node says in them."""
    names = draw(some.lists(some.sampled_from(sorted(answers())), min_size=1, max_size=2))
    return {
        name: draw(mutated(draw(some.sampled_from(answers()[name]))))
        for name in dict.fromkeys(names)
    }
