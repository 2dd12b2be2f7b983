"""Lists of files that a node sends compressed: small ones that become large are not unpacked."""

from __future__ import annotations

import base64
import resource
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.workspace import packed
from gpu_node.facts.workspace.state import parse_tree

LINE = "-rw-r--r-- 1024 2024/01/01 00:00:00 data/part-{}.bin\n"


def answer(text: bytes) -> str:
    """What a node sends for such a list."""
    coded = base64.b64encode(zlib.compress(text, 9, wbits=zlib.MAX_WBITS | 16)).decode()
    return f"base64\n{coded}"


def test_a_list_that_becomes_large() -> None:
    """120 MiB in 120 KiB are refused before they are there."""
    stream = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    line = b"x" * 1023 + b"\n"
    parts = [stream.compress(line * 1024) for _ in range(120)]
    coded = base64.b64encode(b"".join([*parts, stream.flush()])).decode()
    assert len(coded) < 800_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(Unreadable, match=r"more than 96 MiB: leave folders that hold data out"):
        parse_tree(f"base64\n{coded}")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert time.process_time() - began < 5


def test_a_line_without_end() -> None:
    """It is not put together from its parts."""
    with pytest.raises(Unreadable, match="a line of it does not end"):
        parse_tree(answer(b"x" * 5_000_000))


def test_a_list_of_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to do."""
    monkeypatch.setattr(packed, "MOST_ENTRIES", 10)
    text = "".join(LINE.format(number) for number in range(11))
    with pytest.raises(Unreadable, match="more than 10 files"):
        parse_tree(answer(f"{text}end 0\n".encode()))


@pytest.mark.parametrize("size", [0, 1, 40, 400])
def test_a_list_that_is_cut_off(size: int) -> None:
    """It is not taken for a shorter one."""
    text = "".join(LINE.format(number) for number in range(1000))
    whole = zlib.compress(f"{text}end 0\n".encode(), wbits=zlib.MAX_WBITS | 16)
    with pytest.raises(Unreadable):
        parse_tree(f"base64\n{base64.b64encode(whole[:size]).decode()}")


def test_a_whole_list() -> None:
    """Every entry is there, whatever part it came in."""
    text = "".join(LINE.format(number) for number in range(50_000))
    found = parse_tree(answer(f"{text}end 0\n".encode()))
    assert (found.files, found.bytes) == (50_000, 51_200_000)
    assert len(found.entries) == 50_000
    assert found.entries["data/part-49999.bin"] == "- rw-r--r-- 1024 2024/01/01 00:00:00"


MEASURED = """
from pathlib import Path
from gpu_node.facts.workspace.state import parse_tree
from tests.facts.test_packed import answer, LINE
names = (LINE.format(f"{number * 2654435761 % 2**32:032x}") for number in range(400_000))
text = answer("".join([*names, "end 0\\n"]).encode())
found = parse_tree(text)
assert found.files == 400_000 and len(found.entries) == 400_000
# ru_maxrss is at least that of the process that started this one.
most = next(line for line in Path("/proc/self/status").open() if line.startswith("VmHWM:"))
print(most.split()[1])
"""


@pytest.mark.slow
def test_what_a_large_list_costs() -> None:
    """400,000 files, with all that makes the list here: a whole process has less than 220 MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) < 220_000
