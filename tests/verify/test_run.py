"""A run after its tries: when the job of the launcher follows, and what the outcome has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpu_node.verify import run as module
from gpu_node.verify import sessions
from gpu_node.verify.isolate import Found, Tried
from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.outcome import Outcome
from gpu_node.verify.output import Look
from gpu_node.verify.plan import Start
from gpu_node.verify.request import Request
from gpu_node.verify.sessions import Node, Refused
from tests.verify.test_causes import LOOK
from tests.verify.test_hostile import node, start_of

NAMES = ("a100-01", "v100-01")
START = start_of(*NAMES)
ALONE = [Tried((name,)) for name in NAMES]
WORKS, FAILS = Tried(NAMES, seconds=1), Tried(NAMES, "a reason")


def isolated(
    monkeypatch: pytest.MonkeyPatch, tries: list[Tried], left: float = 40, **look: object
) -> tuple[Outcome, list[int]]:
    """Return the outcome of a run with these tries, and the seconds that jobs got."""
    jobs = done(monkeypatch, Found(NAMES, tries), left)
    looks = {name: LOOK.model_copy(update=look) for name in NAMES}
    state: Any = None
    run = module._Run(state, Request(), lambda stage: None)
    return run.isolated(START, [node(name) for name in NAMES], looks), jobs


def done(monkeypatch: pytest.MonkeyPatch, found: Found, left: float = 40) -> list[int]:
    """Have tries show this; return the seconds that jobs get."""
    jobs: list[int] = []

    class Done:
        def __init__(self, *_: object) -> None:
            self.found = found
            names = {name: RankOutput() for name in found.nodes}
            self.outputs = dict.fromkeys(found.tries, names)

        def open(self) -> None: ...

        def close(self) -> None: ...

        def isolate(self, progress: object) -> float:
            return left

    def reduced(self: Any, start: Start, *_: object) -> Outcome:
        jobs.append(start.seconds)
        return Outcome(True)

    monkeypatch.setattr(module, "Tries", Done)
    monkeypatch.setattr(module._Run, "reduced", reduced)
    return jobs


def test_the_job_follows_where_all_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the time that is left, and enough to import torch."""
    outcome, jobs = isolated(monkeypatch, [*ALONE, WORKS])
    assert (outcome.ok, outcome.working, jobs) == (True, dict.fromkeys(NAMES, 1), [40])
    assert isolated(monkeypatch, [*ALONE, WORKS], left=2.5)[1] == [10]


def test_no_job_follows_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail as well, and take its whole time."""
    outcome, jobs = isolated(monkeypatch, [*ALONE, FAILS])
    assert (outcome.ok, jobs, outcome.how) == (False, [], "torchrun, 2 ranks on 2 nodes, gloo")
    assert outcome.problems == ("a100-01, v100-01: a reason",)
    assert [each.members for each in outcome.named] == [NAMES]
    assert [row.node for row in outcome.rows] == [*NAMES]


def test_no_job_follows_a_name_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher would start ranks on another node than it says."""
    wrong = dict.fromkeys(NAMES, "127.0.1.1")
    outcome, jobs = isolated(monkeypatch, [*ALONE, WORKS], names=wrong)
    assert (outcome.ok, jobs, outcome.named) == (False, [], ())
    assert "v100-01: a100-01 resolves to 127.0.1.1 there" in outcome.problems[0]


@pytest.mark.parametrize("refused", [["a100-02"], ["a100-02", "a100-03"]], ids=len)
def test_a_refused_node_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    """It is named; of the others, one with another version is not in the set that works."""
    names = ["a100-01", "a100-02", "a100-03", "a100-04"]
    left = tuple(name for name in names if name not in refused)

    def opened(state: object, host: Any) -> Node:
        if host.name in refused:
            raise Refused(f"{host.name}: refuses the login")
        return node(host.name)

    def look(each: Node, *_: object) -> Look:
        return LOOK.model_copy(update={"torch": "1.13.1"}) if each.name == "a100-03" else LOOK

    tries = [*(Tried((name,)) for name in left), Tried(left, seconds=1)]
    done(monkeypatch, Found(left, tries))
    monkeypatch.setattr(sessions, "open_node", opened)
    monkeypatch.setattr(sessions, "require_idle", lambda each: each)
    monkeypatch.setattr(sessions, "look", look)
    monkeypatch.setattr(sessions, "end", lambda *_: ())
    monkeypatch.setattr(module, "Connector", object)
    state: Any = SimpleNamespace(pool=SimpleNamespace(map=lambda work, each: [*map(work, each)]))
    hosts: Any = [
        SimpleNamespace(name=name, data=SimpleNamespace(dict=lambda: {})) for name in names
    ]
    outcome = module._Run(state, Request(), lambda stage: None).verified(hosts)
    assert not outcome.ok
    found = {each.members: each.why for each in outcome.named}
    odd = {("a100-03",): "torch differs: a100-01 2.1.0, a100-03 1.13.1, a100-04 2.1.0"}
    expected = {(name,): "refuses the login" for name in refused}
    assert found == expected | ({} if "a100-03" in refused else odd)
    assert outcome.problems == tuple(f"{each[0]}: {why}" for each, why in found.items())
    assert [*outcome.working] == ["a100-01", "a100-04"]


def test_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is verified, and the message has the next step."""
    outcome, jobs = isolated(monkeypatch, ALONE, left=0)
    assert (outcome.ok, jobs) == (False, [])
    assert outcome.problems == (
        "found --timeout 60 (over before all was tried); next: a larger --timeout",
    )
