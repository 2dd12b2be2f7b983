"""Logs and dumps are read in a child with limits: what exceeds one is named, the rest is read."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_node.diagnose import limited
from gpu_node.diagnose.answer import Answer, diagnose
from gpu_node.diagnose.cause import causes
from gpu_node.diagnose.limited import Ended, Meter, apart
from gpu_node.diagnose.match import Matcher
from gpu_node.diagnose.scan import Line
from gpu_node.diagnose.sources import Log, LogError, blocks, logs
from tests.commands import BIN
from tests.hostile_nodes import measured

FAILS = b'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\nKeyError: 1\n'
# Within a fresh process, of which nothing else fills the memory: a line of "slow" takes too much.
LARGE = """
from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.match import Matcher
from gpu_node.diagnose.sources import Log
from gpu_node.diagnose import limited
limited.MEMORY = 128 << 20
take = Matcher.take
def large(self, line):
    return take(self, line) if line.log.name != "slow" else bytes(256 << 20)
Matcher.take = large
logs = [Log(name, None, data=b"KeyError: 1\\n") for name in ("slow", "rank_1.log")]
answer = limited.apart(lambda meter: diagnose(logs, meter=meter))
print(answer.candidates[0].says, answer.size.lost)
"""


def log(name: str, data: bytes = FAILS) -> Log:
    return Log(name, None, data=data)


def answered(*logs: Log) -> Answer:
    """Return what a child says of logs."""
    return apart(lambda meter: diagnose(logs, meter=meter))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lines of each log whose name begins with "slow" take for ever."""
    take = Matcher.take

    def forever(self: Matcher, line: Line) -> None:
        while line.log.name.startswith("slow"):
            pass
        take(self, line)

    monkeypatch.setattr(Matcher, "take", forever)
    monkeypatch.setattr(limited, "OF_ONE", 0.2)


def test_the_answer_of_the_child() -> None:
    """It is that of this process."""
    assert answered(log("a"), log("b")) == diagnose([log("a"), log("b")])


def test_an_error_of_the_child() -> None:
    """It is raised here, with its words."""

    def fails(meter: Meter) -> None:
        raise LogError("a.log", "input/output error", "check the disk")

    with pytest.raises(LogError, match=r"found 'a.log' \(input/output error\).*check the disk"):
        apart(fails)


def test_a_child_that_is_killed() -> None:
    with pytest.raises(Ended, match="ended by SIGKILL"):
        apart(lambda meter: os.kill(os.getpid(), signal.SIGKILL))


@pytest.mark.usefixtures("slow")
def test_a_log_that_takes_too_long_is_named() -> None:
    """And the others are read."""
    answer = answered(log("slow.log"), log("good.log"))
    assert answer.size.lost == ["slow.log: more than 0 s of processor time for its 0.0 MiB"]
    assert [each.cause.name for each in answer.candidates] == ["exception"]
    assert {each.log for each in answer.candidates[0].evidence} == {"good.log"}


@pytest.mark.usefixtures("slow")
def test_all_logs_have_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many logs that take as much as one may are no way around it."""
    monkeypatch.setattr(limited, "OF_ALL", 0.5)
    answer = answered(log("good.log"), *(log(f"slow-{number}") for number in range(100)))
    assert answer.candidates
    assert 2 <= len(answer.size.lost) <= 5
    assert answer.size.lost[-1].endswith(": no processor time is left for them")
    assert answer.verdict == "cause"


def test_the_holes_of_a_file_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job makes thousands of such files in a moment, and reading each takes a while."""
    holes = tmp_path / "holes.log"
    with holes.open("wb") as file:
        file.truncate(64 << 20)
    counted: list[int] = []
    meter = Meter()
    monkeypatch.setattr(meter, "read", counted.append)
    ((found,), _) = logs((str(holes),))
    assert sum(map(len, blocks(found, [], meter))) == 64 << 20
    assert sum(counted) < 1 << 20


def test_a_log_that_takes_too_much_memory_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True)
    assert done.stdout == (
        "the program ends with KeyError ['slow: more than 128 MiB of memory']\n"
    ), done.stderr


@pytest.mark.slow
def test_a_small_gz_with_much_to_look_at(tmp_path: Path) -> None:
    """Its size on disk counts, and the log beside it is read."""
    texts = [pattern.has for cause in causes().values() for pattern in cause.patterns]
    block = "".join(f"{'error ' * 600}{each}\n" for each in texts).encode()
    (tmp_path / "bad.log.gz").write_bytes(gzip.compress(block * 150, 9))
    (tmp_path / "good.log").write_bytes(FAILS)
    words = (tmp_path / "bad.log.gz", tmp_path / "good.log", "--format", "json")
    answer = json.loads(measured(BIN / "gpu-node", "diagnose", *words)[0].stdout)
    (lost,) = answer["not_read"]
    assert "bad.log.gz: more than 10 s of processor time" in lost
    assert f"{tmp_path}/good.log" in {each["file"] for each in answer["failing"]}
