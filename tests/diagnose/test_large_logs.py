"""1 GB of interleaved ranks: the time, and the memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import BIN
from tests.hostile_nodes import measured
from tests.pace import pace

MOST_PACES, MOST_KIB = 2000, 200_000
RANKS = 16
END = b"""[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/user/train.py", line 3, in step
[rank3]: KeyError: 'labels'
"""


def _lines(count: int) -> Iterator[str]:
    """Yield what 16 ranks print: of ten lines one has a text of a pattern's, as `error: ` is."""
    numbers = random.Random(1)  # noqa: S311
    site = "/opt/venv/lib/python3.11/site-packages/torch"
    for number in range(count):
        rank, host = number % RANKS, f"node-{number % RANKS // 8}"
        loss = numbers.random()
        yield (
            f"[2026-01-01 12:{number // 60 % 60:02}:{number % 60:02},123] [INFO] "
            f"[logging.py:96:log_dist] [Rank {rank}] step={number}, skipped=0, lr=[0.0001]",
            f"{host}:12{rank}:13{rank} [{rank % 8}] NCCL INFO Channel 00/0 : {rank} -> 0 via P2P",
            f"{host}: [default{rank % 8}]:{{'loss': {loss:.4f}, 'epoch': {number / count:.2f}}}",
            f"[rank{rank}]: ValidationError: {loss:.3f} failed: 0",
            f"{site}/utils/checkpoint.py:{number}: UserWarning: pass use_reentrant explicitly",
        )[number % 5 if number % 10 else 3 if number % 20 else 0]


@pytest.mark.slow
def test_one_gigabyte(tmp_path: Path) -> None:
    """Each block has lines that patterns look at, and the failure is at the end."""
    block = "".join(f"{line}\n" for line in _lines(200_000)).encode()
    log = tmp_path / "train.log"
    with log.open("wb") as file:
        while file.tell() < 1_000_000_000:
            file.write(block)
        file.write(END)
    done, seconds, memory = measured(BIN / "gpu-node", "diagnose", log)
    assert "rank 3 ends with KeyError" in done.stdout, done.stdout
    assert seconds < MOST_PACES * pace()
    assert memory < MOST_KIB
