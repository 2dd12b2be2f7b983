"""What a node's parent of tries sends, and what comes of answers that are wrong."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from gpu_node.verify.isolate import Worked
from gpu_node.verify.nodes import MARK, RankOutput
from gpu_node.verify.tries import Parent, judged
from tests.verify.test_hostile import honest, node, start_of
from tests.verify.test_ranks import SMALL, lines

START = start_of("a", "b")


def answered(*texts: str) -> Parent:
    """Return a parent that has printed these texts."""
    parent = Parent(node())
    for text in texts:
        parent.hear("stdout", text.encode())
    return parent


def test_an_answer() -> None:
    """In whatever parts it comes; other lines are ignored."""
    given = json.dumps({"id": 3, "output": 'rank {"rank": 0, "stage": "small"}\nexit 0 0'})
    text = f"Welcome\n{MARK}{json.dumps({'ready': True})}\n{MARK}{given}\n"
    parent = answered(*text)
    assert parent.is_ready
    assert parent.answers == {3: RankOutput(ranks=({"rank": 0, "stage": "small"},), exits={0: 0})}


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"id": "x"}', '{"id": 1}', '{"id": 1e999}', "[" * 100_000, "\\x00"]
)
def test_an_invalid_answer(text: str) -> None:
    """It is no answer, and the reason why the node is silent."""
    parent = answered(f"{MARK}{text}\n")
    assert (parent.is_ready, parent.answers) == (False, {})


def test_what_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries at once, an empty line now and then, and an end."""
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    parent = Parent(node())
    assert parent.more() == b""
    parent.send(b'{"id": 1}\n')
    parent.send(b'{"id": 2}\n')
    assert (parent.more(), parent.more()) == (b'{"id": 1}\n{"id": 2}\n', b"")
    now[0] += 11
    assert (parent.more(), parent.more()) == (b"\n", b"")
    parent.close()
    parent.send(b'{"id": 3}\n')
    assert parent.more() is None


def test_the_speeds_of_a_node_alone() -> None:
    """They are those of its ranks; none where a rank measured none."""
    *others, done = honest(0).ranks
    start = replace(START, placements=START.placements[:1])
    output = RankOutput(ranks=(*others, {**done, "product": 2e12, "memory": 3e9}))
    assert judged(start, {"a": output}, []).worked == (Worked("cpu", 2e12, 3e9),)
    assert judged(start, {"a": honest(0)}, []).worked == ()


def test_a_try_that_works() -> None:
    """What it takes, and what the slowest link allows; unknown if one is unknown."""
    fast = {"speeds": {"bond0": 10**10}, "interfaces": SMALL["interfaces"]}
    slow = {"speeds": {"bond0": 10**9}, "interfaces": SMALL["interfaces"]}
    found = [honest(0), honest(1)]
    known = {
        name: each.model_copy(update={"ranks": ({**each.ranks[0], **more}, *each.ranks[1:])})
        for name, each, more in zip("ab", found, (fast, slow), strict=True)
    }
    tried = judged(START, known, [])
    assert (tried.members, tried.why, tried.seconds) == (("a", "b"), "", 0.5)
    assert (tried.bandwidth, tried.link) == ((1 << 20) / 0.5, 10**9 / 8)
    assert not tried.is_quick
    assert judged(START, {**known, "a": honest(0)}, []).link is None


@pytest.mark.parametrize(
    ("output", "silent", "why"),
    [
        (RankOutput(), ["b: its Python ended: Killed"], "b: its Python ended: Killed"),
        (RankOutput(problem="9 is no stage"), [], "b: cannot read the output of its ranks: 9 is"),
        (honest(0), [], "b: reports rank 0, which a reports as well"),
        (RankOutput(ranks=tuple(lines(1, "started"))), [], "rank 1 (b) did not get past 'started'"),
        (RankOutput(ranks=({"rank": 1, "stage": "failed"},)), [], "rank 1 (b) did not get past"),
    ],
    ids=["silent", "a problem", "another's rank", "a rank that hangs", "a rank that never began"],
)
def test_a_try_that_fails(output: RankOutput, silent: list[str], why: str) -> None:
    """The first reason is given."""
    tried = judged(START, {"a": honest(0), "b": output}, silent)
    assert tried.why.startswith(why)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ifname": "eth7"}, "NCCL_SOCKET_IFNAME is eth7 there, and its interfaces are lo, train0"),
        ({"ifname": "=train"}, "NCCL_SOCKET_IFNAME is =train there, and its"),
        ({"gloo_ifname": "train"}, "GLOO_SOCKET_IFNAME is train there, and its"),
        ({"ifname": "train,eth7"}, ""),
        ({"ifname": "^docker"}, ""),
        ({"ifname": "", "gloo_ifname": "train0,lo"}, ""),
        ({"ifname": "eth7", "interfaces": {}}, ""),
    ],
    ids=str,
)
def test_a_name_of_no_interface(given: dict[str, object], why: str) -> None:
    """NCCL takes prefixes, gloo whole names; no interface is missed where none is known."""
    started, *others = honest(0).ranks
    started = {**started, "ifname": None, "interfaces": {"lo": "", "train0": ""}, **given}
    start = replace(START, placements=START.placements[:1])
    tried = judged(start, {"a": RankOutput(ranks=(started, *others))}, [])
    assert tried.why.startswith(why) and bool(tried.why) == bool(why)
