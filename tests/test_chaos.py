"""The chaos lane sees what it is there for, and counts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_node.facts.probe.managed_block import NODES
from tests.chaos import __main__ as chaos
from tests.chaos import watch
from tests.chaos.observed import Seen, is_whole, left
from tests.chaos.rounds import Moment, Outcome, Undisturbed

OLD, NEW = b"old line\n" * 2000, b"new line\n" * 2000


def seen(file: Path, script: str) -> Seen:
    """Return what a watcher sees of a file while a shell script changes it."""
    with subprocess.Popen(
        [sys.executable, watch.__file__, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        lines: list[str] = []
        while not lines or '"ready"' not in lines[-1]:
            lines.append(watcher.stdout.readline())
        subprocess.run(["sh", "-euc", script, "sh", file], check=True)
        rest, _ = watcher.communicate("\n", timeout=30)
    found = Seen()
    found.add([*lines, *rest.splitlines()], str(file.parent))
    return found


@pytest.mark.parametrize(
    ("script", "is_partial"),
    [
        ('cp "$1.new" "$1.beside" && mv "$1.beside" "$1"', False),
        ('cp "$1.new" "$1"', True),
        ('cat "$1" >"$1.kept" && echo half >"$1" && mv "$1.kept" "$1"', True),
        ('head -c 100 "$1.new" >"$1.half"; mv "$1.half" "$1"; sleep 0.3; mv "$1.new" "$1"', True),
        (': >"$1.none"; mv "$1.none" "$1"; sleep 0.3; mv "$1.new" "$1"', True),
        ('mv "$1" "$1.kept"; sleep 0.3; mv "$1.new" "$1"', True),
    ],
)
def test_a_file_of_which_a_part_was_there(tmp_path: Path, script: str, is_partial: bool) -> None:
    """Also if it was there for a moment; a file that is renamed into place is always whole."""
    file = tmp_path / "fstab"
    file.write_bytes(OLD)
    (tmp_path / "fstab.new").write_bytes(NEW)
    found = seen(file, script)
    partial = found.partial({"/fstab": OLD}, {"/fstab": NEW})
    assert partial == ({"/fstab"} if is_partial else set())


@pytest.mark.parametrize(
    ("script", "is_partial"),
    [('echo a >"$1.new"; mv "$1.new" "$1"', False), (': >"$1"; sleep 0.3; echo a >"$1"', True)],
)
def test_a_folder_that_appears(tmp_path: Path, script: str, is_partial: bool) -> None:
    """What is written into a file there is seen, too."""
    file = tmp_path / "conf.d" / "own"
    found = seen(file, f'mkdir -p "${{1%/*}}"; sleep 0.3; {script}')
    assert found.contents["/own"] == {None, b"a\n", *([b""] if is_partial else [])}
    assert found.partial({"/own": None}, {"/own": b"a\n"}) == ({"/own"} if is_partial else set())


ONE = NODES.block("key a gpu-node:a\n")
BOTH = NODES.block("key a gpu-node:a\nkey b gpu-node:b\n")


@pytest.mark.parametrize(
    ("content", "before", "expected"),
    [
        (ONE + "# user\n", "# user\n", True),
        (ONE + "# us", "# user\n", False),
        (ONE.replace("key a", "key") + "# user\n", "# user\n", False),
        (BOTH, "# user\n", False),
        (BOTH[:-5], "# user\n", False),
        ("# user\n", "# user\n", True),
        ("", "# user\n", False),
        (None, "# user\n", False),
        # The file did not exist; an empty one is what a failure of the power may leave.
        (None, None, True),
        (ONE, None, True),
        ("", None, False),
    ],
)
def test_lines_of_some_nodes(content: str | None, before: str | None, expected: bool) -> None:
    """A run that one of two nodes has survived writes the line of that one."""
    found, was = (None if each is None else each.encode() for each in (content, before))
    assert is_whole(found, was, f"{BOTH}{before or ''}".encode()) == expected


@pytest.mark.parametrize(
    ("path", "is_left"),
    [
        *(("etc/nccl.conf", False), ("etc/new.conf", True), ("etc/.nccl.conf.gpu-node", True)),
        *(("var/tmp/gpu-node-pip.42.aB3xY9/held.txt", True), ("opt/.cmake-3.gpu-node/tree", True)),
        *(("var/lib/gpu-node", False), ("etc/ssh/sshd_config.d/00-gpu-node.conf", False)),
    ],
)
def test_what_is_left(path: str, is_left: bool) -> None:
    """What no undisturbed run leaves; a temporary file is not usual, either."""
    usual = {"etc/nccl.conf", "var/lib/gpu-node", "etc/ssh/sshd_config.d/00-gpu-node.conf"}
    if path != "etc/new.conf":
        usual.add(path)
    assert left({path}, usual) == ([path] if is_left else [])


def test_a_run_is_killed_after_an_operation() -> None:
    """Not before it has ended, and not later."""
    script = (
        "from tests.chaos import stopping; from pyinfra.api import State\n"
        "s = State(); s.callback_handlers = []; stopping.stop_after(2)\n"
        "for n in range(4): print(n, flush=True); s.trigger_callbacks('operation_end', n)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (-9, ["0", "1"])


def test_moments() -> None:
    """A seed gives the same ones, each within an operation, however long they take."""
    run = Undisturbed(["a", "b"], [2.0, 5.0], 9.0, {})
    chosen = [run.moments(50, chaos.chance("7", "a node")) for _ in range(2)]
    assert chosen[0] == chosen[1] != run.moments(50, chaos.chance("8", "a node"))
    assert {each.operation for each in chosen[0]} == {0, 1}
    assert all(0 <= each.seconds <= (3, 4)[each.operation] for each in chosen[0])
    slow = Undisturbed(["a", "b"], [4.0, 10.0], 18.0, {}).moments(50, chaos.chance("7", "a node"))
    assert slow == [Moment(each.operation, each.seconds * 2) for each in chosen[0]]
    assert run.name(Moment(1, 0.52)) == "0.5 s into b"


def test_the_table() -> None:
    """A line for each kind; one that has not had all its rounds is not well."""
    wrong = Outcome("no", ["n:/etc/fstab"], ["n:/tmp/x", "n:/tmp/y"], 30)
    kills = [chaos.Kill("then", Outcome, 2)] * 2
    kind = chaos.Kind("a node", kills, [Outcome(seconds=20)])
    assert not kind.is_well
    kind.outcomes.append(Outcome(seconds=20.4))
    assert kind.is_well
    kind.outcomes[0] = wrong
    assert not kind.is_well
    assert chaos.table([kind]).splitlines()[-1] == "| a node | 4 | 2 | 1 | 2 | 50 |"
