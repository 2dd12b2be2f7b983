"""The lanes: each test is in one of them, and what a run of several prints and leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests import lanes
from tests.conftest import PROGRAMS, known
from tests.examples import ALL, examples
from tests.lanes import Lane
from tests.node_scripts import until
from tests.real_wheels import conftest as real_wheels

HERE = Path(__file__).parent
# Lanes of what has no marker.
UNMARKED = ("speed", "check", *lanes.GROUPS["quick"], "fuzz", "lab-launcher", "chaos")
# Lanes that only a call of their target runs.
APART = ("chaos",)
MARKED = re.compile(r"pytest\.mark\.([a-z_]+)")
START = """
import sys
from pathlib import Path
from tests import lanes
from tests.lanes import Lane
lanes.LOGS = Path(sys.argv[1])
lanes.LANES = {lanes}
sys.exit(lanes.main(sys.argv[2:]))
"""


def _markers() -> set[str]:
    _, _, listed = (HERE.parent / "pyproject.toml").read_text().partition("\nmarkers = [\n")
    return set(re.findall(r'^    "([a-z_]+): ', listed, re.MULTILINE))


def _expression(name: str) -> str:
    command, *_ = lanes.LANES[name].commands
    # The first one is python's, for its module.
    *_, last = [number for number, word in enumerate(command) if word == "-m"]
    return command[last + 1]


def _marker(name: str) -> str:
    """The marker of a lane; what it leaves out is another lane's."""
    marker, *left_out = _expression(name).split(" and not ")
    assert set(left_out) <= _markers()
    return marker


def test_every_test_is_in_a_lane() -> None:
    """The quick lane has all tests without a marker, and each marker belongs to a lane."""
    for name in lanes.GROUPS["quick"]:
        assert _expression(name) == "quick"
    others = {*_markers()} - {"quick"}
    assert {_marker(name) for name in lanes.LANES if name not in UNMARKED} == others
    assert {*PROGRAMS} == _markers()


def test_the_parts_of_the_quick_lane_are_the_whole() -> None:
    """One part leaves out the folders of the others."""
    whole, *parts = (lanes.LANES[name].commands[0] for name in lanes.GROUPS["quick"])
    ignored = [word.partition("=")[2] for word in whole if word.startswith("--ignore=")]
    assert ignored == [word for part in parts for word in part if word.startswith("tests/")]
    assert ignored
    assert not [word for word in whole if word.startswith("tests/")]


@pytest.mark.parametrize("marker", sorted(_markers() - {"quick"}))
def test_a_lane_has_all_files_of_its_marker(marker: str) -> None:
    """Those that its command names, or that another lane of the same marker does."""
    found = {
        str(path.relative_to(HERE.parent))
        for path in HERE.rglob("*.py")
        if marker in MARKED.findall(path.read_text())
    } - {"tests/lanes.py", "tests/test_lanes.py"}
    assert found
    taken: list[str] = []
    for name in lanes.LANES:
        if name in UNMARKED or _marker(name) != marker:
            continue
        words = [str(word) for word in lanes.LANES[name].commands[0]]
        ignored = {word.partition("=")[2] for word in words if word.startswith("--ignore=")}
        given = [word for word in words if word.startswith("tests/")]
        taken += [path for path in found - ignored if path.startswith(tuple(given))]
    assert sorted(taken) == sorted(found)


def test_all_examples_are_tried_in_a_lane() -> None:
    """The lane has the files that try less in the quick lane."""
    (command,) = lanes.LANES["fuzz"].commands
    assert command[:2] == ["env", f"{ALL}=1"]
    assert "tests/facts/test_globs.py" in command
    assert examples(300) == (300 if os.environ.get(ALL) else 30)


def test_ci_runs_every_lane() -> None:
    """.ci/run calls two targets, whose lanes are all but those apart."""
    script = (HERE.parent / ".ci" / "run").read_text()
    makefile = (HERE.parent / "Makefile").read_text()
    targets = re.findall(r"^make (\S+)$", script, re.MULTILINE)
    assert targets == ["test", "test-slow"]
    named = []
    for target in targets:
        (recipe,) = re.findall(
            rf"^{target}: setup-dev\n\t@\S+ -m tests\.lanes (.*)$", makefile, re.M
        )
        named += [each for name in recipe.split() for each in lanes.GROUPS.get(name, [name])]
    assert sorted([*named, *APART]) == sorted(lanes.LANES)


@pytest.mark.parametrize(
    ("expression", "runs"),
    [
        *(("", False), ("not lab", False), ("lab", False)),
        *(("not real_wheels", False), ("real_wheels", True)),
    ],
)
def test_the_real_wheels_are_asked_for_by_name(expression: str, runs: bool) -> None:
    """A test of theirs is left out, whatever else -m chooses, unless it names them alone."""
    item = SimpleNamespace(get_closest_marker=lambda name: name == real_wheels.LANE)
    items: list[object] = [item]
    left_out: list[object] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    config = SimpleNamespace(option=SimpleNamespace(markexpr=expression), hook=hook)
    real_wheels.pytest_collection_modifyitems(
        cast(pytest.Config, config), cast(list[pytest.Item], items)
    )
    # With `not real_wheels` pytest itself leaves it out.
    assert (items == [item]) == (runs or expression == "not real_wheels")
    assert items + left_out == [item]


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts the runner with lanes of shell scripts; at the end none is left."""
    runners: list[subprocess.Popen[str]] = []

    def started(**scripts: str | tuple[str, str] | Lane) -> subprocess.Popen[str]:
        table = {}
        for name, script in scripts.items():
            if isinstance(script, Lane):
                table[name] = script
                continue
            text, after = (script, "") if isinstance(script, str) else script
            table[name] = Lane([["sh", "-c", text]], after.split())
        runner = subprocess.Popen(
            [sys.executable, "-c", START.format(lanes=table), str(tmp_path / "logs"), *scripts],
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        runners.append(runner)
        return runner

    yield started
    for runner in runners:
        runner.kill()
        runner.communicate()
    # A lane that a failed test has left: it leads its group.
    if pid := _pid(tmp_path):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _pid(folder: Path) -> int:
    """Return the process id that a lane has written there; 0 if it has not."""
    file = folder / "pid"
    return int(file.read_text().strip() or 0) if file.exists() else 0


def _begun(folder: Path) -> int:
    """Wait until a lane has written its process id; return it."""
    assert until(lambda: _pid(folder))
    return _pid(folder)


def test_a_line_for_each_lane_and_one_for_all(start: Start, tmp_path: Path) -> None:
    """What the lanes print is in their files."""
    done = start(one="echo '3 passed, 1 deselected in 2.00s'", two=("echo fine", "one"))
    out, err = done.communicate(timeout=30)
    assert (done.returncode, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(r"one +0:\d\d  3 passed, 1 deselected", lines[0])
    assert re.fullmatch(r"two +0:\d\d  passed", lines[1])
    assert lines[2:] == ["tests: 3 passed, 0 failed"]
    assert (tmp_path / "logs" / "two.log").read_text() == "fine\n"


def test_the_table_of_a_lane_is_shown(start: Start) -> None:
    """A row begins and ends with a bar."""
    out, _ = start(one="echo '| a | 1 |'; echo 'b | 2'; echo '| c | 3 |'").communicate(timeout=30)
    assert out.splitlines()[1:] == ["| a | 1 |", "| c | 3 |"]


# It passes from its second run on, or from a later one.
LOAD = """from pathlib import Path
def test_load():
    runs = Path(__file__).with_name("runs")
    with runs.open("a") as file:
        file.write("x")
    assert len(runs.read_text()) >= {passes}
"""


@pytest.mark.parametrize(
    ("passes", "listed"), [(2, ""), (2, "test_load.py::test_load"), (3, "test_load.py::test_load")]
)
def test_a_failed_test_is_repeated_once(
    start: Start, tmp_path: Path, passes: int, listed: str
) -> None:
    """One that passes only then fails the run, unless it is listed; its first failure is shown."""
    test = tmp_path / "test_load.py"
    test.write_text(LOAD.format(passes=passes))
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "repeated.tsv").write_text(f"test\tdate\treason\n{listed}\t2026-01-01\tslow\n")
    pytest_here = [*lanes.PYTEST, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(test)]
    done = start(one=Lane([pytest_here]))
    out, err = done.communicate(timeout=60)
    log = (tmp_path / "logs" / "one.log").read_text()
    assert "failed, and repeated: test_load.py::test_load" in log
    assert f"assert 1 >= {passes}" in log.partition("slowest")[2]
    passed = passes == 2
    assert (done.returncode, (tmp_path / "runs").read_text()) == (not (passed and listed), "xx")
    assert ("RERUN test_load.py::test_load" in out) == (passed and bool(listed))
    assert ("test_load.py::test_load passed only when repeated" in err) == (passed and not listed)


def test_what_is_skipped_is_named(start: Start) -> None:
    """With its reason, as pytest's summary has it."""
    out, _ = start(one="echo 'SKIPPED [1] tests/x.py:3: no curl'").communicate(timeout=60)
    assert "\nSKIPPED [1] tests/x.py:3: no curl\n" in out


@pytest.mark.parametrize(("test", "row"), known().items())
def test_what_may_be_repeated_is_a_test(test: str, row: tuple[str, str]) -> None:
    """With the date from which on it may, and the reason."""
    file, name = test.split("::")
    function = name.partition("[")[0]
    assert f"def {function}(" in (HERE.parent / file).read_text()
    assert date.fromisoformat(row[0]) and len(row[1]) > 20


def test_the_first_that_fails_ends_the_others(start: Start, tmp_path: Path) -> None:
    """They may restore what they use; the failed lane is printed whole, the others are named."""
    cleans = f"trap 'touch {tmp_path}/clean; exit 1' INT; sleep 30 & wait"
    fails = f"echo '....  [ 50%]'; echo why >&2; sleep 0.5; touch {tmp_path}/failed; exit 3"
    done = start(bad=fails, busy=cleans, later="")
    out, err = done.communicate(timeout=30)
    failed, ended = ((tmp_path / name).stat().st_mtime for name in ("failed", "clean"))
    assert ended - failed < 10
    assert done.returncode == 1
    assert "tests:" not in out
    assert err.splitlines()[0] == "why"
    assert "FAILED (exit 3); not finished: busy" in err.splitlines()[-1]


def test_a_lane_that_waits_does_not_start_after_a_failure(start: Start, tmp_path: Path) -> None:
    done = start(bad="exit 1", later=(f"touch {tmp_path}/ran", "bad"))
    _, err = done.communicate(timeout=30)
    assert done.returncode == 1
    assert "not finished: later" in err
    assert not (tmp_path / "ran").exists()


def test_lanes_take_no_ignored_signals_over(start: Start) -> None:
    """Also under nohup or a shell's `&`, a lane reacts to SIGHUP and SIGINT."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        done = start(one="kill -HUP $$; exit 0")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    done.communicate(timeout=30)
    assert done.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_lanes(start: Start, tmp_path: Path, number: int) -> None:
    done = start(one=f"echo $$ >{tmp_path}/pid; exec sleep 60")
    pid = _begun(tmp_path)
    done.send_signal(number)
    _, err = done.communicate(timeout=30)
    assert (done.returncode, err) == (1, "tests: interrupted\n")
    assert _is_gone(pid)


def test_a_killed_run_leaves_no_lane(start: Start, tmp_path: Path) -> None:
    """The kernel ends it when its parent is gone."""
    done = start(one=f"echo $$ >{tmp_path}/pid; exec sleep 60")
    pid = _begun(tmp_path)
    done.kill()
    done.communicate(timeout=30)
    assert _is_gone(pid)


def test_an_unknown_lane(start: Start) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lanes", "fast"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("tests: no lane fast; there are: speed, check, quick")


def _is_gone(pid: int) -> bool:
    """Whether a process ends."""
    return until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_child_does_not_outlive_its_lane(start: Start, tmp_path: Path) -> None:
    """The lane's own process has failed, and its child holds its output."""
    done = start(bad=f"sleep 60 & echo $! >{tmp_path}/pid; exit 5")
    pid = _begun(tmp_path)
    _, err = done.communicate(timeout=30)
    assert done.returncode == 1 and "FAILED (exit 5)" in err
    assert _is_gone(pid)


def test_a_command_that_is_not_there(start: Start) -> None:
    """One line names it; the other lanes end."""
    done = start(one="exec sleep 60", two=Lane([["/nowhere/tool"]]))
    _, err = done.communicate(timeout=30)
    assert done.returncode == 1 and "Traceback" not in err
    assert "No such file or directory: '/nowhere/tool'" in err
    assert "FAILED (exit 127); not finished: one" in err


def test_a_second_interrupt_ends_all_lanes(start: Start, tmp_path: Path) -> None:
    """A lane that ignores the first one is killed all the same."""
    done = start(one=f"trap '' INT; echo $$ >{tmp_path}/pid; while :; do sleep 0.1; done")
    pid = _begun(tmp_path)
    while done.poll() is None:
        done.send_signal(signal.SIGINT)
        time.sleep(0.1)
    _, err = done.communicate(timeout=30)
    assert (done.returncode, err) == (1, "tests: interrupted\n")
    assert _is_gone(pid)


def test_no_signal_comes_between_the_first_and_the_end() -> None:
    """A second one must not stop what ends the lanes before it has begun."""
    code = """if True:
        import signal
        from tests import lanes
        try:
            lanes.take_signals()
            signal.raise_signal(signal.SIGINT)
        except lanes.Ended:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            print("ended once")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE.parent, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("ended once\n", 0)


INTERRUPTED = """if True:
    import os, signal, subprocess, sys
    from pathlib import Path
    from tests import lanes

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            Path(sys.argv[1], "pid").write_text(str(self.pid))
            signal.raise_signal(signal.SIGINT)

    subprocess.Popen = Interrupted
    lanes.LOGS = Path(sys.argv[1])
    lanes.LANES = {"one": lanes.Lane([["sh", "-c", "trap '' INT; while :; do sleep 0.1; done"]])}
    sys.exit(lanes.main(["one"]))
"""


def test_an_interrupt_while_a_lane_starts(start: Start, tmp_path: Path) -> None:
    """The lane is known by then, and ends with the others."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, "tests: interrupted\n")
    assert _is_gone(_pid(tmp_path))
