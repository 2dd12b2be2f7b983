"""Streams that are closed or full, and a working directory that is gone: one line, exit 1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.commands import BIN, SECONDS, environment

CLOSED = "gpu-node: found a closed stdout; allowed: an open one; next: write to /dev/null or to a"
FULL = "gpu-node: found no space left on device (writing to stdout, or to a temporary file)\n"
GONE = "gpu-node: found a working directory that was deleted; next: cd to one that exists\n"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of sh, in which gpu-node is the installed command, with Python's buffers."""
    return subprocess.run(
        ["sh", "-c", line.replace("gpu-node", str(BIN / "gpu-node"))],
        cwd=folder,
        env={key: value for key, value in environment().items() if key != "PYTHONUNBUFFERED"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def later(*lines: str) -> list[ParameterSet]:
    """Move cases to the lane `slow`: each one starts the command."""
    return [pytest.param(line, marks=pytest.mark.slow) for line in lines]


@pytest.mark.parametrize("words", ["drift site.py", "--help", *later("hostfile site.py", "rules")])
def test_a_closed_stdout(folder: Path, words: str) -> None:
    """No connection and no file becomes stdout."""
    done = shell(f"gpu-node {words} >&-", folder)
    assert done.returncode == 1
    assert done.stderr.startswith(CLOSED) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words", ["drift site.py", "--help", *later("rules", "--version", "rules shm")]
)
def test_a_full_stdout(folder: Path, words: str) -> None:
    done = shell(f"gpu-node {words} >/dev/full", folder)
    assert (done.returncode, done.stderr) == (1, FULL)


@pytest.mark.parametrize("words", ["drift nope.py", "nope", *later("drift site.py --limit x", "")])
def test_a_full_stderr(folder: Path, words: str) -> None:
    """The exit code is all that is left."""
    done = shell(f"gpu-node {words} 2>/dev/full", folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_report_with_a_full_stderr(folder: Path) -> None:
    """What goes to stdout is not lost with it: the report says that no node answers."""
    done = shell("gpu-node drift site.py 2>/dev/full", folder)
    assert done.returncode == 1 and "unreachable" in done.stdout


@pytest.mark.slow
def test_both_are_full(folder: Path) -> None:
    done = shell("gpu-node rules >/dev/full 2>&1", folder)
    assert done.returncode == 1


def test_a_dry_deploy_into_a_full_stdout(folder: Path) -> None:
    done = shell("gpu-node deploy site.py --dry >/dev/full", folder)
    assert done.returncode == 1
    assert "Exception ignored" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["rules shm", *later("drift site.py")])
@pytest.mark.parametrize("width", ["0", *later("00")])
def test_a_terminal_without_a_width(folder: Path, words: str, width: str) -> None:
    """COLUMNS=0 is as good as none."""
    plain = shell(f"gpu-node {words}", folder)
    done = shell(f"COLUMNS={width} LINES=0 gpu-node {words}", folder)
    assert (done.returncode, done.stderr) == (plain.returncode, "")
    assert done.stdout == plain.stdout and done.stdout


def test_a_closed_stdin_and_stderr(folder: Path) -> None:
    """The report is whole."""
    done = shell("gpu-node drift site.py <&- 2>&-", folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "unreachable  a100-01" in done.stdout


def test_a_reader_that_ends_early(folder: Path) -> None:
    done = shell("gpu-node rules | head -c 1 >/dev/null", folder)
    assert done.stderr == ""


@pytest.mark.parametrize("words", ["deploy site.py --yes", *later("deploy site.py --dry")])
def test_a_deploy_whose_reader_has_ended(folder: Path, words: str) -> None:
    """Its report is shown by another way than that of drift."""
    done = shell(f"{{ sleep 0.1; gpu-node {words}; echo $? >code; }} | true", folder)
    assert (done.stderr, (folder / "code").read_text()) == ("", "1\n")


def test_a_deleted_working_directory(folder: Path) -> None:
    (folder / "gone").mkdir()
    done = shell(f"cd gone && rmdir ../gone && gpu-node drift {folder}/site.py", folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", GONE)
