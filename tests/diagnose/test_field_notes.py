"""Failures that people met by hand: each log names its cause first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.sources import Log
from tests.case_files import load

NOTES: dict[str, dict[str, str]] = load((Path(__file__).parent / "field_notes.yml").read_text())


@pytest.mark.parametrize("name", NOTES)
def test_the_cause_is_first(name: str) -> None:
    """Of a log of that shape."""
    note = NOTES[name]
    answer = diagnose([Log("train.log", None, data=note["log"].encode())])
    assert [each.cause.name for each in answer.candidates][:1] == [note["cause"]]


def test_a_result_code_of_nccl_is_found_behind_its_other_lines() -> None:
    """A whole log has some thousand lines of it, and the failure is in the last."""
    head = "gpu1:912:1033 [0] NCCL INFO"
    before = f"{head} Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n" * 1000
    log = f"{before}{head} misc/socket.cc:561 -> 2"
    answer = diagnose([Log("train.log", None, data=log.encode())])
    assert [each.cause.name for each in answer.candidates] == ["nccl-peer-unreachable"]
