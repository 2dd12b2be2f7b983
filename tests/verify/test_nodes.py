"""What runs on a node: writing the job, the answer of Python, the end of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.verify import nodes
from tests import environments
from tests.verify.job_scripts import ask, program, with_shell


def test_the_job_reports_its_python(environment: dict[str, str], run: str) -> None:
    """The job's folder is private, and its answer has the reason why torch is missing."""
    found = nodes.parse_look(ask(nodes.look(run, "", sys.executable, ["localhost"]), environment))
    assert (found.python, found.torch) == (sys.executable, None)
    assert found.error == "ModuleNotFoundError: No module named 'torch'"
    assert found.names == {"localhost": found.names["localhost"]}
    assert 1024 < found.port < 65536
    assert Path(nodes.folder(run)).stat().st_mode & 0o777 == 0o700
    assert Path(nodes.folder(run), "job.py").read_text() == nodes.JOB


LIBRARY = """
import os
__version__ = "2.1.0"
# As triton does, which torch and DeepSpeed import.
os.makedirs(os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~/.triton"), exist_ok=True)
caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
os.makedirs(caches + "/torch", exist_ok=True)
class cuda:
    is_available = staticmethod(bool)
class distributed:
    is_available = staticmethod(bool)
"""


def test_a_library_is_left_as_it_is(environment: dict[str, str], run: str, tmp_path: Path) -> None:
    """Importing it writes neither beside it nor into the user's home."""
    (tmp_path / "lib" / "torch").mkdir(parents=True)
    (tmp_path / "lib" / "torch" / "__init__.py").write_text(LIBRARY)
    (tmp_path / "home").mkdir()
    environment |= {"PYTHONPATH": str(tmp_path / "lib"), "HOME": str(tmp_path / "home")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = sorted((tmp_path / "lib").rglob("*"))
    found = nodes.parse_look(ask(nodes.look(run, "", sys.executable, []), environment))
    assert (found.torch, found.error) == ("2.1.0", None)
    assert sorted((tmp_path / "lib").rglob("*")) == before
    assert list((tmp_path / "home").iterdir()) == []
    assert not list(Path(nodes.folder(run)).rglob("*.pyc"))


def test_a_python_that_does_not_exist(environment: dict[str, str], run: str) -> None:
    """The answer is the reason; the section does not fail."""
    answer = ask(nodes.look(run, "", "/nowhere/python", []), environment)
    with pytest.raises(Unreadable, match="does not exist, or is not in the PATH"):
        nodes.parse_look(answer)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs what others own")
def test_root_does_not_run_a_python_of_others(environment: dict[str, str], run: str) -> None:
    """A user who can change it would become root; the message has the next step."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (prefix := Path(folder) / "env" / "bin").mkdir(parents=True)
        (python := prefix / "python").write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
        python.chmod(0o755)
        for each in (prefix.parent, prefix, python):
            os.chown(each, 1, 1)
        answer = ask(nodes.look(run, "", str(python), []), environment)
        assert not Path(folder, "ran").exists()
    assert answer.startswith("root does not run it because daemon may change it: train as daemon")


PLANTED = {
    "a file deep in torch": "chown daemon {torch}/lib/deep/file.so",
    "a folder deep in torch": "chown daemon {torch}/lib/deep",
    "a link out of torch": "ln -s {place}/theirs/x {torch}/lib/deep/x",
    "a folder of PYTHONPATH": "chown daemon {place}/path",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root imports what others own")
@pytest.mark.parametrize("case", PLANTED)
def test_root_does_not_import_what_others_may_change(case: str, run: str, tmp_path: Path) -> None:
    """However deep in a package it is: the environment and its torch are root's."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        made = environments.environment(place / "env")
        torch = made.packages / "torch"
        commands = (
            f"rm -rf {torch}; mkdir -p {torch}/lib/deep {place}/theirs {place}/path; "
            f"touch {torch}/lib/deep/file.so; chown -hR root {place}; chmod -R go-w {place}; "
            f'echo \'open("{place}/ran", "w")\' >{torch}/__init__.py; chown daemon {place}/theirs; '
        )
        environment = {**with_shell(tmp_path / "bin", "dash"), "PYTHONPATH": f"{place}/path:"}
        subprocess.run(["sh", "-ec", commands], check=True)
        assert "root does not run it" not in ask(
            nodes.look(run, "", str(made.python), []), environment
        )
        assert (place / "ran").exists()
        planted = PLANTED[case].format(torch=torch, place=place)
        clean = f"rm -r {place}/ran {nodes.folder(run)}; {planted}"
        subprocess.run(["sh", "-ec", clean], check=True)
        answer = ask(nodes.look(run, "", str(made.python), []), environment)
        assert not (place / "ran").exists()
    assert answer.startswith("root does not run it because daemon may change it: train as daemon")


def test_output_before_the_answer_is_ignored() -> None:
    """A start file may print; without an answer the last line of the output is the reason."""
    answer = {"python": "/p", "names": {}, "port": 5, "root": True, "deepspeed": False}
    assert nodes.parse_look(f"hello\n{nodes.MARK}{json.dumps(answer)}\nbye").port == 5
    with pytest.raises(Unreadable, match="SyntaxError: invalid syntax"):
        nodes.parse_look("  File job.py\nSyntaxError: invalid syntax\n")


def test_an_existing_folder_is_not_used(environment: dict[str, str], run: str) -> None:
    """Another user may have made it."""
    os.mkdir(nodes.folder(run))
    with pytest.raises(Unreadable, match="exit 1"):
        ask(nodes.look(run, "", sys.executable, []), environment)


def test_two_names_of_one_machine_are_refused(environment: dict[str, str], run: str) -> None:
    """The second finds the folder that this user made for the first."""
    first = ask(nodes.look(run, "", sys.executable, [], "a100-01"), environment)
    assert nodes.parse_look(first).torch is None or nodes.MARK in first
    second = ask(nodes.look(run, "", sys.executable, [], "a100-02"), environment)
    assert second.strip() == f"{nodes.SAME_MACHINE}a100-01"


def started(folder: str, *argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, cwd=folder, start_new_session=True)


def test_the_end_leaves_nothing(environment: dict[str, str], run: str, tmp_path: Path) -> None:
    """Its processes are killed, even stopped ones; its folder is removed; other processes live."""
    folder = nodes.folder(run)
    os.mkdir(folder)
    os.mkdir(f"{folder}/log")
    mine = [started(folder, "sleep", "600"), started(f"{folder}/log", "sleep", "600")]
    mine[0].send_signal(signal.SIGSTOP)
    other = started(str(tmp_path), "sleep", "600")
    beside = Path(f"{folder}-beside")
    beside.mkdir()
    neighbour = started(str(beside), "sleep", "600")
    try:
        assert nodes.parse_end(ask(nodes.end(run, ""), environment)) == ()
        assert [each.wait(timeout=10) for each in mine] == [-signal.SIGKILL] * 2
        assert (other.poll(), neighbour.poll()) == (None, None)
    finally:
        for each in (*mine, other, neighbour):
            with suppress(ProcessLookupError):
                each.kill()
            each.wait()
        beside.rmdir()
    assert not os.path.exists(folder)


def test_an_end_without_a_list_of_processes(
    environment: dict[str, str], run: str, tmp_path: Path
) -> None:
    """What runs there is unknown: nothing is removed, and the report has why."""
    folder = nodes.folder(run)
    os.mkdir(folder)
    program(tmp_path / "first", "xargs", "exit 127\n")
    unlisted = {**environment, "PATH": f"{tmp_path}/first:{environment['PATH']}"}
    with started(folder, "sleep", "600") as mine:
        try:
            with pytest.raises(Unreadable, match="the processes cannot be listed"):
                ask(nodes.end(run, ""), unlisted)
            assert mine.poll() is None and os.path.exists(folder)
        finally:
            mine.kill()


def test_the_output_of_ranks(environment: dict[str, str], run: str) -> None:
    """Complete lines of ranks; exit status and output of the commands, in ASCII."""
    folder = nodes.folder(run)
    os.mkdir(folder)
    Path(folder, "0.rank").write_text('{"rank": 0, "stage": "started"}\n{"rank": 0, "sta')
    Path(folder, "1.rank").write_text('{"rank": 1, "stage": "small"}\n')
    Path(folder, "exit.0").write_text("255\n")
    Path(folder, "log.0").write_bytes("Permission denied\nGröße\n".encode("latin-1"))
    found = nodes.parse_rank_output(ask(nodes.rank_output(run, ""), environment))
    assert found.ranks == ({"rank": 0, "stage": "started"}, {"rank": 1, "stage": "small"})
    assert found.exits == {0: 255}
    assert found.logs == {0: ("Permission denied", "Gr??e")}


def test_a_run_that_never_began(environment: dict[str, str], run: str) -> None:
    """There is no output, and nothing to remove."""
    assert (
        nodes.parse_rank_output(ask(nodes.rank_output(run, ""), environment)) == nodes.RankOutput()
    )
    assert nodes.parse_end(ask(nodes.end(run, ""), environment)) == ()
    assert nodes.parse_end("left process 5\nleft folder /tmp/x") == ("process 5", "folder /tmp/x")


def test_ranks_have_a_time_limit(environment: dict[str, str], run: str) -> None:
    """The controller may be gone by then."""
    os.mkdir(nodes.folder(run))
    path = Path(nodes.folder(run), "start.sh")
    path.write_text(nodes.START)
    began = time.monotonic()
    done = subprocess.run(
        ["sh", str(path), "1", "sh", "-c", "pwd; echo $TMPDIR; sleep 30"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=29,
    )
    assert done.stdout.split() == [nodes.folder(run)] * 2
    assert time.monotonic() - began < 29


def test_as_another_user(tmp_path: Path) -> None:
    """The training user makes the folder, in the shell of a login."""
    environment = with_shell(tmp_path / "bin", "dash")
    program(tmp_path / "bin", "id", '[ "$1" = -un ] && echo admin || echo 1000\n')
    program(tmp_path / "bin", "sudo", 'printf "%s\\n" "$@"\n')
    asked = nodes.as_trainer("train", "echo hello")
    done = subprocess.run(["sh", "-c", asked], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[:4] == ["-n", "-H", "-u", "train"]
    assert done.stdout.splitlines()[-1] == "echo hello"
