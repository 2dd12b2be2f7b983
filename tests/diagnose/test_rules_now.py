"""What an answer says of the rules that look for its cause: which nodes have it, and who knows."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from gpu_node.diagnose.answer import Candidate, diagnose
from gpu_node.diagnose.cause import Cause, causes
from gpu_node.diagnose.report import as_json, render
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.model import Report
from gpu_node.facts.areas import AREAS
from gpu_node.facts.probe.peers import Peer
from tests.drift import reports, states

CAUSES = [each for each in causes().values() if each.rules]
NODES: dict[str, dict[str, Any]] = {
    "fine-1": {},
    "fine-2": {},
    "off": {"checks": dict.fromkeys(AREAS, False)},
    "cpu": {"gpu_model": "none"},
}
UNREAD = [{"area": area, "section": f"{area}.x", "reason": "no answer"} for area in AREAS]
PEERS = tuple(Peer(name=name, address=name) for name in (*NODES, "unread", "gone"))


@pytest.fixture(name="now", scope="module")
def _now() -> Report:
    """Two healthy nodes, one where all is off, one without jobs, one unread, one that is gone."""
    seen = {name: replace(states.seen(**data), nodes=PEERS) for name, data in NODES.items()}
    unread = replace(states.seen({"unreadable": UNREAD}), nodes=PEERS)
    return reports.report({**seen, "unread": unread, "gone": reports.GONE})


def lines(cause: Cause, now: Report | None) -> dict[str, str]:
    """Return what the answer with a cause says of each of its rules."""
    answer = replace(diagnose([]), candidates=(Candidate(cause, "high", (), cause.says),))
    console = Console(file=io.StringIO(), width=5000)
    console.print(render(answer, now))
    assert isinstance(console.file, io.StringIO)
    texts = [each.partition("rule ")[2].strip() for each in console.file.getvalue().splitlines()]
    (data,) = as_json(answer, now)["candidates"]
    found = {}
    for rule, as_data in zip(cause.rules, data["rules"], strict=True):
        (text,) = (each for each in texts if each.startswith(f"{rule}: "))
        found[rule] = text.removeprefix(f"{rule}: ")
        assert as_data["rule"] == rule
        for name in as_data["not_judged"] or ():
            assert name in text.partition("not judged on ")[2]
    return found


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_no_rule_is_said_to_have_judged_what_it_did_not(cause: Cause, now: Report) -> None:
    """A node without a finding is one that the rule was judged on, with all values of its area."""
    for rule, text in lines(cause, now).items():
        clear = [each for each in text.split("; ") if each.startswith("no finding now on ")]
        named = {name for each in clear for name in each.split(" on ")[1].split(", ")}
        assert not named & {"off", "unread", "gone"}, text
        assert not (named and RULES[rule].judged_by), text
        assert "cpu" not in named or now.hosts["cpu"].why_unknown(rule) == "", text


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_the_command_that_is_named_judges_the_rule(cause: Cause) -> None:
    """`gpu-node drift --only` of a rule that no report judges finds nothing, ever."""
    for rule, text in lines(cause, None).items():
        if RULES[rule].judged_by:
            assert text == f"judged {RULES[rule].judged_by}" and "gpu-node " in text
        else:
            assert text == f"gpu-node drift INVENTORY --only {rule}"
