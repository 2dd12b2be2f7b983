"""Logs and dumps that are made to harm: nothing is run, and time and memory stay bounded."""

from __future__ import annotations

import gzip
import os
import pickle
import resource
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.flight import read_flight
from gpu_node.diagnose.sources import Log, logs
from tests.commands import BIN, environment
from tests.examples import examples
from tests.hostile_nodes import measured
from tests.test_linear import grows

WHOLE = {
    "entries": [
        {"state": "completed", "collective_seq_id": 4, "profiling_name": "nccl:all_reduce"},
        {"state": "started", "collective_seq_id": 5, "profiling_name": "nccl:broadcast"},
    ]
}


@pytest.mark.parametrize(
    "entries", [[], [1], [{"profiling_name": "nccl:all_reduce"}], [{"state": None}]], ids=str
)
def test_a_dump_without_states_is_not_healthy(tmp_path: Path, entries: list[object]) -> None:
    """Which collectives ended is unknown then."""
    log = of_file(tmp_path, pickle.dumps({"entries": entries}))
    assert diagnose([log]).verdict == "nothing known"


class Harm:
    """Runs a command when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


def of_file(folder: Path, data: bytes) -> Log:
    """Return the log that a file with some bytes is."""
    path = folder / "nccl_trace_rank_3"
    path.write_bytes(data)
    ((log,), _) = logs((str(path),))
    return log


def test_a_dump_says_what_a_rank_waited_for(tmp_path: Path) -> None:
    """The control: a whole dump is read."""
    flight = read_flight(of_file(tmp_path, pickle.dumps(WHOLE)))
    assert (flight.rank, flight.waiting, flight.sequence) == (3, "nccl:broadcast (started)", 5)
    assert flight.error == ""


def test_keys_of_one_hash(tmp_path: Path) -> None:
    """A key that is a number is left out: of those with one hash, each is compared with all."""
    numbers = [number * ((1 << 61) - 1) for number in range(20_000)]
    few = pickle.dumps({**dict.fromkeys(numbers[:10], 0), **WHOLE})
    assert read_flight(of_file(tmp_path, few)).waiting == "nccl:broadcast (started)"
    pairs = [b"\x8a\x0a%sK\x00" % each.to_bytes(10, "little", signed=True) for each in numbers]

    def read(size: str) -> None:
        data = b"\x80\x02}(" + b"".join(pairs[: len(size)]) + b"u."
        assert not read_flight(Log("dump", None, data=data)).waiting

    assert not grows(read, lambda size: "x" * size, len(numbers) // 4)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_that_runs_a_command(tmp_path: Path, protocol: int) -> None:
    """It is refused, and the command is not run."""
    made = tmp_path / "made"
    flight = read_flight(of_file(tmp_path, pickle.dumps({"entries": Harm(made)}, protocol)))
    assert "posix.system" in flight.error
    assert not made.exists()


def _sharing(levels: int) -> list[Any]:
    """Return a list that holds one list twice, which holds another twice, and so on."""
    nested: list[Any] = ["x" * 100]
    for _ in range(levels):
        nested = [nested, nested]
    return nested


@pytest.mark.parametrize(
    "data",
    [
        # The place of its memo is 2 147 483 647.
        pytest.param(b"\x80\x02}r" + struct.pack("<I", 0x7FFFFFFF) + b".", id="memo"),
        # Eight exabytes of text follow, it says.
        pytest.param(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.", id="length"),
        pytest.param(b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.", id="frame"),
        pytest.param(
            pickle.dumps({"entries": [{"state": "x", "profiling_name": _sharing(60)}]}), id="shared"
        ),
        pytest.param(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", id="deep"),
        pytest.param(b"\x80\x02" + b"(" * 1_000_000, id="marks", marks=pytest.mark.slow),
        # The hash of a key: nested too deep for the stack, and one that takes 2 ** 60 steps.
        pytest.param(
            b"\x80\x02})" + b"\x85" * 1_000_000 + b"Ns.", id="deep key", marks=pytest.mark.slow
        ),
        pytest.param(b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"Ns.", id="key without end"),
        pytest.param(b"\x80\x05\x96" + struct.pack("<Q", 5 << 30) + b".", id="five gigabytes"),
        pytest.param(b"\x80\x04(" + b"\x8f" * 4_000_000 + b"l.", id="sets"),
        pytest.param(
            b"\x80\x04]" + b"\x94" * 16_000_000 + b".",
            id="places of its memo",
            marks=pytest.mark.slow,
        ),
        pytest.param(b"\x80\x02(" + b"}" * 16_000_000 + b"l.", id="dicts", marks=pytest.mark.slow),
        pytest.param(b"\x80\x02I" + b"9" * 4_000_000 + b"\n.", id="a number of a text"),
        pytest.param(pickle.dumps({"entries": [1, None, {"state": 7}, {"state": []}]}), id="types"),
        pytest.param(b"\x80\x04", id="empty"),
    ],
)
def test_a_pickle_without_end(tmp_path: Path, data: bytes) -> None:
    """Its size is that of the file, whatever it says."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flight = read_flight(of_file(tmp_path, data))
    assert len(flight.waiting) < 1000
    assert len(flight.error) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


@given(st.binary(max_size=300).map(lambda data: b"\x80\x04" + data))
@settings(max_examples=examples(200), deadline=None)
def test_any_pickle(data: bytes) -> None:
    """It is an answer, never an error."""
    assert read_flight(Log("dump", None, data=data)).log == "dump"


@given(st.lists(st.binary(max_size=200), max_size=20).map(b"\n".join))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes(data: bytes) -> None:
    """They are an answer, never an error."""
    answer = diagnose(
        [Log("log", None, data=data + b"\nTraceback (most recent call last)\n" + data)]
    )
    assert answer.logs == 1


def test_a_line_without_end(tmp_path: Path) -> None:
    """What is in it is found; it is not kept."""
    (tmp_path / "log").write_bytes(
        b"x" * 60_000_000 + b" No space left on device " + b"y" * 9_000_000
    )
    done, _, memory = measured(BIN / "gpu-node", "diagnose", tmp_path / "log")
    assert done.returncode in (0, 2), done.stderr
    assert memory < 200_000
    assert len(done.stdout) < 20_000


def test_a_gz_that_unpacks_without_end(tmp_path: Path) -> None:
    """150 MB of one line in 150 KB: read in bounded memory; a damaged one to its damage."""
    packed = gzip.compress(b"0" * 150_000_000 + b"\n[rank1]: KeyError: 'x'\n", 9)
    (tmp_path / "log.gz").write_bytes(packed)
    words = BIN / "gpu-node", "diagnose", tmp_path / "log.gz"
    done, _, memory = measured(*words)
    assert "KeyError" in done.stdout
    assert memory < 200_000
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"0" * 2_000_000, 9)[:-1000])
    damaged = measured(*words)[0]
    assert damaged.returncode == 2
    assert "what follows the damage of this gz" in " ".join(damaged.stdout.split())


def test_what_a_log_says_to_the_terminal() -> None:
    """Nothing: its escapes are shown, or taken away."""
    text = b"\x1b]0;owned\x07\x1b[2J\xe2\x80\xaeValueError\x9b: \x85 token=abcdefgh\n"
    words = [str(BIN / "gpu-node"), "diagnose", "-"]
    given = b"\x1b[31mTraceback (most recent call last):\n" + text
    done = subprocess.run(words, input=given, env=environment(), capture_output=True)
    assert not {*done.stdout.decode()} & {"\x1b", "\x07", "\x9b", "\x85", "\u202e"}
    assert b"abcdefgh" not in done.stdout
