"""Writes docs/rules.md: every rule of the report, by what the rules say of themselves.

`python docs/rules.py` writes it again; a test fails when it does not match the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.report.explained import causes
from gpu_node.facts.areas import AREAS

PAGE = Path(__file__).parent / "rules.md"
_HEAD = """\
# Rules of the report

Each finding of `gpu-node drift` has the id of one of these rules. A rule with several severities
names the usual one first: the finding says which it is. `repair` is what the deploy changes; a
rule without it needs manual action. `because of` names the rules whose findings explain one of
this rule: the report's JSON has the first of such a chain as `root`. `gpu-node explain RULE`
prints the same.

Beside these, AREA.unreadable (error) reports a fact that the probe could not read. A fact that is
unknown counts as wrong. The table sums up those that only root can read as `needs-root`.

`judged` is when: `always`, on some nodes, or where the inventory has a key or several nodes. What
an inventory does not name is reported, and never changed: the finding then names the key that lets
the deploy repair it.
`checks: {RULE or AREA: false}` in the inventory turns a rule or an area off, and
`{until: 2026-12-24, reason: "..."}` in place of `false` until the end of that day. The report
counts what is off; a guard of the deploy is never off.

`without root` is what a user without root can do where the manual repair needs root. The table
shows it for nodes whose facts were read by such a user. `in a container` stands in the place of
`manual repair` where the node is a container.

`docs/rules.py` writes this page; do not edit it."""


def page() -> str:
    """Return the page as Markdown."""
    by_area = groupby(sorted(RULES.values(), key=lambda rule: AREAS.index(rule.area)), _area)
    areas = [(area, list(rules)) for area, rules in by_area]
    contents = [
        f"- {area}: {', '.join(f'[{each.id}](#{_anchor(each)})' for each in rules)}"
        for area, rules in areas
    ]
    sections = [line for area, rules in areas for line in _sections(area, rules)]
    return "\n".join([_HEAD, "", *contents, *sections]) + "\n"


def _area(rule: Rule) -> str:
    return rule.area


def _anchor(rule: Rule) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return rule.id.replace(".", "")


def _sections(area: str, rules: list[Rule]) -> Iterator[str]:
    yield from ("", f"## {area}")
    for rule in rules:
        yield from ("", f"### {rule.id}", "", f"{' or '.join(rule.severity)}. {rule.checks}", "")
        yield f"- why: {rule.why}"
        yield f"- judged: {rule.judged}"
        if rule.repair:
            yield f"- repair: {rule.repair}"
        yield f"- manual repair: {rule.manual}"
        if rule.without_root:
            yield f"- without root: {rule.without_root}"
        if rule.in_container:
            yield f"- in a container: {rule.in_container}"
        if rule.explained_by:
            yield f"- because of: {causes(rule)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
