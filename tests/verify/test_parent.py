"""The parent of tries on a node: what it answers, and what is left of ranks that it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_node.verify.nodes import JOB, MARK, parse_rank_output
from tests.node_scripts import until

# A torch of which the ranks only meet: what happens then is in the environment.
STUB = {
    "__init__.py": "import os\nfrom . import cuda\n__version__ = '2.1.0'\n"
    "device = lambda *words: words\nos.write(2, b'imported\\n')\n",
    "cuda.py": "set_device = print\nget_device_name = 'GPU {0[1]}'.format\n",
    "distributed/__init__.py": "",
    "distributed/rendezvous.py": "import os\ndef rendezvous(*_, **__): exec(os.environ['DOES'])\n",
}
GIVEN = {"id": 7, "first": 2, "ranks": 1, "world": 4, "master": "a", "port": 5, "size": 4}
GIVEN |= {"backend": "gloo", "seconds": 30, "works": False}
HANGS = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('hangs', flush=True); "


class Parent:
    """A running parent in a folder."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = folder, process

    def send(self, **changes: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**GIVEN, **changes}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline().removeprefix(MARK))

    def ranks(self) -> list[str]:
        """Return the processes of ranks and those that they started."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                inside = os.readlink(each / "cwd") == str(self.folder)
            except OSError:
                continue
            if inside and int(each.name) != self.process.pid:
                found.append(each.name)
        return found


@contextmanager
def running(folder: Path, does: str, code: str = "job.Tries().serve()") -> Iterator[Parent]:
    """Start a parent whose ranks do something where they meet."""
    (folder / "job.py").write_text(JOB)
    for name, text in STUB.items():
        (folder / "torch" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "torch" / name).write_text(text)
    with (
        (folder / "stderr").open("w") as printed,
        subprocess.Popen(
            [sys.executable, "-c", f"import job; {code}"],
            cwd=folder,
            env={**os.environ, "DOES": does, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            text=True,
        ) as process,
    ):
        parent = Parent(folder, process)
        assert parent.answer() == {"ready": True}
        yield parent


def test_ranks_are_forks(tmp_path: Path) -> None:
    """torch is imported once; an answer has what each rank reported, printed and ended with."""
    fails = "raise OSError(os.environ['MASTER_ADDR'] + os.environ['LOCAL_RANK'])"
    with running(tmp_path, f"print('meets'); {fails}") as parent:
        parent.send(ranks=2, backend="nccl")
        answer = parent.answer()
        parent.send(id=8)
        assert parent.answer()["id"] == 8
    found = parse_rank_output(answer["output"])
    assert (answer["id"], found.problem, found.exits) == (7, "", {2: 1, 3: 1})
    assert found.logs == {at: (f"('cuda', {at - 2})", "meets") for at in (2, 3)}
    devices = [line["device"] for line in found.ranks if line["stage"] == "imported"]
    assert devices == ["GPU 0", "GPU 1"]
    failed = [line for line in found.ranks if line["stage"] == "failed"]
    assert [(line["rank"], line["error"]) for line in failed] == [
        (2, "OSError: a0"),
        (3, "OSError: a1"),
    ]
    assert (tmp_path / "stderr").read_text() == "imported\n"
    assert not [*tmp_path.glob("try-*")]


def test_a_rank_that_hangs_is_killed(tmp_path: Path) -> None:
    """With what it started, and NCCL's segment, at the limit of its try."""
    segment = Path(f"/dev/shm/nccl-{os.getpid()}-test")
    segment.write_bytes(b"x")
    maps = f"import mmap; kept = mmap.mmap(os.open('{segment}', os.O_RDWR), 0); "
    try:
        with running(tmp_path, f"{maps}{HANGS}time.sleep(600)") as parent:
            parent.send(seconds=5)
            found = parse_rank_output(parent.answer()["output"])
            assert (found.exits, found.logs) == ({2: 1}, {2: ("hangs",)})
            assert until(lambda: not parent.ranks())
        assert not segment.exists()
    finally:
        segment.unlink(missing_ok=True)


def test_it_ends_with_its_stdin(tmp_path: Path) -> None:
    """And so do its ranks, and what these started."""
    with running(tmp_path, f"{HANGS}time.sleep(600)") as parent:
        parent.send()
        assert until(lambda: len(parent.ranks()) == 2)
        assert parent.process.stdin is not None
        parent.process.stdin.close()
        assert parent.process.wait(timeout=20) == 0
        assert until(lambda: not parent.ranks())


def test_it_ends_without_a_controller(tmp_path: Path) -> None:
    """A connection may be lost without an end: no line comes any more."""
    began = time.monotonic()
    with running(tmp_path, "", "job.QUIET_SECONDS = 2; job.Tries().serve()") as parent:
        assert parent.process.wait(timeout=20) == 0
    assert time.monotonic() - began >= 2


def test_the_output_is_bounded(tmp_path: Path) -> None:
    """Of a rank that prints without end the last lines are reported."""
    with running(tmp_path, "[print('x' * 90, i) for i in range(10**5)]; 1/0") as parent:
        parent.send()
        answer = parent.answer()
    assert len(answer["output"]) < 20_000
    assert parse_rank_output(answer["output"]).logs[2][-1].endswith(" 99999")
