"""Writes docs/explanation/proofs.md: for each rule what proves it, and prints a summary.

`python -m docs.proofs` writes it again; a test fails when it does not match lab/faults and
tests/drift/proofs.yml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.areas import AREAS
from gpu_node.lab.faults import catalogue

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "explanation" / "proofs.md"
LIST = REPOSITORY / "tests" / "drift" / "proofs.yml"
_KINDS = ("fault", "kernel", "other test", "case alone")
_HEAD = """\
# How each rule is proved

Each rule has cases in `tests/drift/cases`: one node for which it has a finding, and one for which
it has none. Beside these a rule is proved by one of:

- a fault: a file of `lab/faults` that breaks a node of the lab. The report has the findings that
  the fault must cause and no other, the deploy repairs what it can, and a second run changes
  nothing (`make faults`);
- a test of real programs or systems: in a virtual machine (`make kernel`, `make kernel-slow`), on
  the lab, or on programs of this machine;
- its cases alone, where no fault can show it: the reason is below.

`python -m docs.proofs` writes this page, also at the end of `make faults`; do not edit it."""


class Proof(NamedTuple):
    """What proves a rule: the kind of it, and its name or the reason."""

    rule: str
    kind: str
    text: str


def proofs() -> list[Proof]:
    """Return what proves each rule; a rule that has two, or none, is the test's business."""
    by_fault = {each.rule: fault for fault in catalogue().values() for each in fault.expect}
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    found = [Proof(rule, "fault", fault.name) for rule, fault in by_fault.items() if rule in RULES]
    for rule, test in listed["tests"].items():
        found.append(Proof(rule, "kernel" if "/kernel/" in test else "other test", test))
    for why, rules in listed["cases"].items():
        found += [Proof(rule, "case alone", why) for rule in rules]
    return found


def page() -> str:
    """Return the page as Markdown."""
    found = {each.rule: each for each in proofs()}
    rows = [(rule, found[rule].kind, _shown(found[rule])) for rule in RULES if rule in found]
    rows.sort(key=lambda row: AREAS.index(row[0].partition(".")[0]))
    every = _table(("rule", "by", ""), rows)
    return "\n".join([_HEAD, "", "## Summary", "", *summary(), "", "## Rules", "", *every, ""])


def summary() -> list[str]:
    """Return how many rules of each area are proved by what, as a table."""
    counts = Counter((each.rule.partition(".")[0], each.kind) for each in proofs())
    rows: list[Sequence[object]] = []
    for area in AREAS:
        numbers = [counts[area, kind] for kind in _KINDS]
        if any(numbers):
            rows.append((area, sum(numbers), *numbers))
    every = [sum(counts[area, kind] for area in AREAS) for kind in _KINDS]
    return list(_table(("area", "rules", *_KINDS), [*rows, ("all", sum(every), *every)]))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"


def _shown(proof: Proof) -> str:
    return proof.text if proof.kind == "case alone" else f"`{proof.text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(*summary(), sep="\n")
