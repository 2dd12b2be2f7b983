"""A node with a false answer is named and fails the verification; root removes nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from typing_extensions import override

from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.verify import nodes, output, sessions
from gpu_node.verify.isolate import Named
from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.outcome import Outcome
from gpu_node.verify.plan import Placement, Start
from gpu_node.verify.request import Request
from gpu_node.verify.run import _Run
from gpu_node.verify.sessions import Node, Refused
from gpu_node.verify.tries import judged
from tests.examples import examples
from tests.verify.job_scripts import ask
from tests.verify.test_ranks import lines

HONEST = {"python": "/p", "names": {"a": None}, "port": 5, "root": False, "deepspeed": False}
DEEP = "[" * 100_000
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def node(name: str = "x", **more: object) -> Node:
    """Return a node with host data, without a connection."""
    data = {"ssh_hostname": "192.0.2.1", **more}
    host = SimpleNamespace(connector=None, data=SimpleNamespace(dict=lambda: data))
    wanted = NodeWanted.from_data(data)
    return Node(cast(Any, host), Peer(name=name, address="192.0.2.1"), wanted, "root")


def answering(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sessions, "ask", lambda *_, **__: text)


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": 10**9},
        {"gpus": -1},
        {"gpus": "8x"},
        {"port": 0.5},
        {"port": 0},
        {"port": 99999},
        {"python": "-c"},
        {"names": {"a": "192.0.2.1;id"}},
        {"torch": "2.1; rm -rf /"},
        {"torch": "2.1\n"},
        {"nccl": ["2"]},
        {"python": "/p\nx"},
        {"python": "/" * 5000},
        {"names": {"a": {"b": 1}}},
        {"names": []},
        {"error": "x" * 1000},
        {"error": "\ud800"},
        {"more": 1},
        {"root": None},
    ],
    ids=str,
)
def test_a_false_answer_of_python_is_refused(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the node."""
    answering(monkeypatch, nodes.MARK + json.dumps({**HONEST, **change}))
    with pytest.raises(Refused, match="x: python3: invalid answer: "):
        sessions.look(node(), "run", "", [])
    assert nodes.parse_look(nodes.MARK + json.dumps(HONEST)).port == 5


@pytest.mark.parametrize("text", ["", "{", DEEP, '{"port": NaN}', "[]", "null", "9" * 5000])
def test_an_invalid_answer_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parser raises."""
    answering(monkeypatch, nodes.MARK + text)
    with pytest.raises(Refused, match="x: python3: "):
        sessions.look(node(), "run", "", [])


@pytest.mark.parametrize(
    "line",
    [
        {"rank": -1},
        {"rank": 2**40},
        {"rank": "0x"},
        {"stage": "nothing"},
        {"stage": "done"},
        {"seconds": 0},
        {"seconds": 1e308},
        {"bytes": -1},
        {"connections": [["a", 1]]},
        {"connections": [["a", 1, "b", "c"]]},
        {"interfaces": ["lo"]},
        {"nccl_log": ["x" * 10**5]},
        {"nofile": 2**70},
        {"ifname_from": "elsewhere"},
        {"other": 1},
    ],
    ids=str,
)
def test_a_false_line_of_a_rank_is_a_problem_of_its_node(line: dict[str, Any]) -> None:
    """The lines before it are kept."""
    honest = json.dumps({"rank": 0, "stage": "started"})
    found = nodes.parse_rank_output(
        f"rank {honest}\nrank {json.dumps({'rank': 1, 'stage': 'small', **line})}"
    )
    assert found.ranks == ({"rank": 0, "stage": "started"},)
    assert found.problem


def test_a_line_that_is_cut_off_is_ignored() -> None:
    """Its rank ended while it wrote."""
    found = nodes.parse_rank_output('rank {"rank": 0, "stage": "started"}\nrank {"rank": 0, "sta')
    assert (len(found.ranks), found.problem) == (1, "")


def test_numbers_of_commands_are_numbers() -> None:
    """Digits that are not ASCII, and numbers that are too long, are ignored."""
    nine = "9" * 5000
    text = f"exit ² 1\nexit 0 {nine}\nexit {nine} 0\nlog {nine} x\nlog ٣ x\nexit 1 x\nexit 2 0"
    assert nodes.parse_rank_output(text) == RankOutput(exits={0: -1, 1: -1, 2: 0})


@given(some.text(max_size=60) | some.lists(JSON).map(lambda rows: "\n".join(map(_row, rows))))
@settings(max_examples=examples(1000))
def test_no_answer_raises(text: str) -> None:
    """Whatever bytes a node sends."""
    nodes.parse_rank_output(text)
    nodes.parse_end(text)
    for each in (text, nodes.MARK + text):
        with suppress(Unreadable, ValueError):
            nodes.parse_look(each)


def _row(value: object) -> str:
    return f"rank {json.dumps(value)}"


@given(some.dictionaries(some.sampled_from([*output.Line.model_fields]), JSON, max_size=6))
@settings(max_examples=examples(200))
def test_no_line_of_a_rank_raises(line: dict[str, Any]) -> None:
    """Neither the parser nor the outcome computed from it."""
    given = {"rank": 0, "stage": "done", **DONE, **line}
    found = nodes.parse_rank_output(f"rank {json.dumps(given)}")
    outputs = {"a": found, "b": honest(1)}
    assert reduced(outputs).ok is False or not found.problem
    assert judged(start_of(*outputs), outputs, []).why or not found.problem


STAGES = ("started", "imported", "connected", "init", "small", "large", "done")
DONE: dict[str, Any] = {"seconds": 0.5, "bytes": 1 << 20, "ranks": 2}


def honest(number: int) -> RankOutput:
    """Return the output of a node's only rank, which has finished."""
    return RankOutput(ranks=tuple(lines(number, *STAGES[:-1]) + lines(number, "done", **DONE)))


def start_of(*names: str) -> Start:
    """Return a run with a rank on each of some nodes."""
    placements = tuple(Placement(node(name).peer, "/p", "2.1.0", 1) for name in names)
    return Start("run", "torchrun", placements, 29500, "gloo", 1 << 20, 60)


def reduced(outputs: dict[str, RankOutput]) -> Outcome:
    """Return the outcome of a verification whose nodes have this output."""
    run = _Run(
        cast(Any, SimpleNamespace(pool=SimpleNamespace(map=lambda work, each: [*map(work, each)]))),
        Request(),
        lambda stage: None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "launch", lambda *_: "")
        patch.setattr(sessions, "rank_output", lambda each, name: outputs[each.name])
        return run.reduced(start_of(*outputs), [node(name) for name in outputs])


def test_honest_nodes_are_verified() -> None:
    """The control."""
    outcome = reduced({"a": honest(0), "b": honest(1)})
    assert (outcome.ok, outcome.problems) == (True, ())
    assert outcome.bandwidth is not None


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            RankOutput(problem="9 is no stage"),
            "x: cannot read the output of its ranks: 9 is no stage",
        ),
        (honest(5), "x: reports rank 5, but the job has 2 ranks"),
        (honest(0), "x: reports rank 0, which a reports as well"),
        (
            RankOutput(ranks=({"rank": 1, "stage": "failed"},)),
            "rank 1 (x) did not get past 'started' within 60 s",
        ),
    ],
    ids=["a problem", "no such rank", "another's rank", "a rank that never began"],
)
def test_a_node_with_false_output_fails_by_its_name(output: RankOutput, message: str) -> None:
    """The row of the other node is the same as without it."""
    outcome = reduced({"a": honest(0), "x": output})
    assert not outcome.ok
    assert any(each.startswith(message) for each in outcome.problems), outcome.problems
    assert outcome.rows[0] == reduced({"a": honest(0), "b": honest(1)}).rows[0]


def test_a_node_that_only_launches_is_not_asked() -> None:
    """Where no other node is left, that is the answer."""

    class Asking(_Run):
        @override
        def opened(self, host: Any) -> Node:
            raise sessions.Refused(f"{host.name}: asked")

    def host(name: str, model: str) -> Any:
        return SimpleNamespace(name=name, data=SimpleNamespace(dict=lambda: {"gpu_model": model}))

    pool = SimpleNamespace(map=lambda work, each: [*map(work, each)])
    run = Asking(cast(Any, SimpleNamespace(pool=pool)), Request(), lambda stage: None)
    alone = run.verified([host("login", "none")])
    assert (alone.ok, alone.problems) == (False, ("found no node for jobs: all have gpu: none",))
    both = run.verified([host("login", "none"), host("a100-01", "A100")])
    assert both.problems == ("a100-01: asked",)


def test_a_node_whose_work_raises_is_refused() -> None:
    """The message has the error's class and text."""

    def work(each: Node) -> str:
        if each.name == "x":
            raise OverflowError("too large")
        return each.name

    run = _Run(cast(Any, SimpleNamespace(pool=SimpleNamespace(map=map))), Request(), print)
    assert run.each([node("a"), node("x")], work) == {"a": "a"}
    assert run.named == [Named(("x",), "not understood: OverflowError: too large")]


@pytest.fixture
def run(run: str) -> str:
    """A name for a run, whose folder exists."""
    os.mkdir(nodes.folder(run))
    return run


SLEEPS = "import sys, time; print(flush=True); time.sleep(60)"
MAPS = (
    "import mmap, sys, time\n"
    "files = [open(each, 'r+b') for each in sys.argv[1:]]\n"
    "kept = [mmap.mmap(each.fileno(), 0) for each in files]\n"
    "print(flush=True); time.sleep(60)"
)


class Running:
    """Processes that have started, and that end with the test."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[str]] = []

    def start(self, *argv: str, cwd: str, code: str = SLEEPS) -> subprocess.Popen[str]:
        words = [*argv[:-1], sys.executable, "-c", code] if argv[-1:] == ("-",) else [*argv]
        started = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, text=True)
        self.all.append(started)
        assert started.stdout is not None
        assert started.stdout.readline() == "\n"
        return started


@pytest.fixture
def running() -> Iterator[Running]:
    started = Running()
    yield started
    for each in started.all:
        each.kill()
        each.communicate()


def test_a_folder_with_a_line_of_ls_in_its_name_is_not_a_job(
    environment: dict[str, str], run: str, tmp_path: Path, running: Running
) -> None:
    """Such a name could otherwise point to a process of another user."""
    other = running.start("-", cwd="/")
    name = f"{tmp_path}/a\nl 1 0 0 0 /proc/{other.pid}/cwd -> {nodes.folder(run)}"
    os.makedirs(name)
    forging = running.start("-", cwd=name)
    assert nodes.parse_end(ask(nodes.end(run, ""), environment)) == ()
    assert (other.poll(), forging.poll()) == (None, None)


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_a_process_of_another_user_is_not_a_job(
    environment: dict[str, str], run: str, running: Running
) -> None:
    """Even in the folder of the run."""
    code = f"import os; os.setuid(65534); {SLEEPS}"
    other = running.start("-", cwd=nodes.folder(run), code=code)
    nodes.parse_end(ask(nodes.end(run, ""), environment))
    assert other.poll() is None


@pytest.mark.skipif(os.getuid() != 0, reason="namespaces are made")
def test_a_file_that_a_container_names_is_left(
    environment: dict[str, str], run: str, running: Running, tmp_path: Path
) -> None:
    """A process in another mount namespace is not a job: its paths are not the node's."""
    victim = Path(f"/dev/shm/nccl-{run}-victim")
    victim.write_bytes(b"x")
    script = f"mount -t tmpfs none /dev/shm; echo x >{victim}; cd {nodes.folder(run)}; "
    script += f'exec {sys.executable} -c "$1" {victim}'
    try:
        inside = running.start("unshare", "--mount", "sh", "-c", script, "sh", MAPS, cwd="/")
        nodes.parse_end(ask(nodes.end(run, ""), environment))
        assert victim.exists()
        assert inside.poll() is None
    finally:
        victim.unlink()


def test_segments_of_killed_ranks_are_removed(
    environment: dict[str, str], run: str, running: Running
) -> None:
    """Only plain files of the one folder, and none that another process has mapped."""
    folder = Path(f"/dev/shm/nccl-{run}-folder")
    folder.mkdir()
    kept, gone = folder / "kept", Path(f"/dev/shm/nccl-{run}-gone")
    shared = Path(f"/dev/shm/nccl-{run}-shared")
    try:
        for each in (kept, gone, shared):
            each.write_bytes(b"x")
        argv = (sys.executable, "-c", MAPS)
        running.start(*argv, str(kept), str(gone), str(shared), cwd=nodes.folder(run))
        running.start(*argv, str(shared), cwd="/")
        nodes.parse_end(ask(nodes.end(run, ""), environment))
        assert [each.exists() for each in (kept, gone, shared)] == [True, False, True]
    finally:
        shutil.rmtree(folder)
        gone.unlink(missing_ok=True)
        shared.unlink()
