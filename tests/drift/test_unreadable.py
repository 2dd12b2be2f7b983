"""No value of the report is unreadable without a finding: whatever a node's answer lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.shown_facts import FACTS, facts_of
from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import NodeState, parse, sections
from gpu_node.facts.probe.request import ProbeRequest
from tests.drift import states

DIS = "/opt/dis"
HEALTHY: dict[str, Any] = {"nccl": {"environments": {DIS: {}}}}
NAMED = {"nccl_environments": [DIS]}


def _paths(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each part of a dumped state."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _paths(part, (*path, key))


def _without(dump: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a dumped state without one part of it."""
    head, *rest = path
    return {**dump, head: _without(dump[head], tuple(rest)) if rest else None}


def _lacking() -> Iterator[tuple[str, NodeState]]:
    """Yield the healthy node without each part of an answer that a node may lack."""
    dump = states.state(HEALTHY).model_dump()
    for path in _paths({area: dump[area] for area in AREAS}):
        # AREA.SECTION as a whole is what could not be read: the parser lists it.
        if len(path) > 2 and path[:2] != ("nccl", "environments"):
            with suppress(ValidationError):
                yield ".".join(path), NodeState.model_validate(_without(dump, path))


def test_a_part_that_is_missing_has_a_finding() -> None:
    """Of an answer that was read, wherever a value of the report needs the part."""
    lacking = dict(_lacking())
    assert len(lacking) > 30
    tried: set[str] = set()
    for part, found in lacking.items():
        findings = check(found, states.wanted(NAMED))
        for fact in (*FACTS, *facts_of([found])):
            if fact.is_asked(found) and fact.value(found) is None:
                tried.add(fact.name)
                is_unreadable = f"{fact.area}.unreadable" in {each.rule for each in findings}
                assert is_unreadable or fact.is_marked(findings), f"{fact.name} without {part}"
    assert {"toolchain.cuda", "toolchain.gcc"} <= tried


def test_a_section_without_an_answer_has_a_finding() -> None:
    """Each of them, as where a node's answer ends early."""
    found = parse([], sections(ProbeRequest(environments=(DIS,))))
    findings = check(found, states.wanted(NAMED))
    rules = {each.rule for each in findings}
    for fact in FACTS:
        if fact.is_asked(found) and fact.value(found) is None:
            assert f"{fact.area}.unreadable" in rules, fact.name


@pytest.mark.parametrize("kind", ["gcc", "cuda", "python3"])
@pytest.mark.parametrize("output", ["", "x" * 200, "gcc: error while loading shared libraries"])
def test_a_program_that_shows_no_version(kind: str, output: str) -> None:
    """On the only node, too, which no rule compares with another."""
    tool = {"path": f"/usr/bin/{kind}", "version": None, "output": output}
    found = states.state({"toolchain": {"versions": {kind: tool}}})
    findings = [each for each in check(found, states.wanted({})) if "unreadable" in each.rule]
    (finding,) = findings
    assert (finding.rule, finding.subject) == ("toolchain.unreadable", f"toolchain.{kind}")
    assert f"/usr/bin/{kind} shows no version: {output[:40] or 'no output'}" in finding.found
