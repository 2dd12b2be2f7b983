"""Lines of records: what each shell writes of any words, Python reads as these words alone."""

from __future__ import annotations

import os
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.probe.records import ABSENT, Change, change_of, line_of, path_of, words_of
from tests.examples import examples
from tests.node_scripts import environment
from tests.shells import SHELLS

# What shells, awk, printf and sed take for more than a character.
SPECIAL = (b" ", b"\n", b"\t", b"\\", b"\\040", b"%s", b"-", b"'", b'"', b"$(id)", b"*", b"\xc3")
PAIRS = b"".join(first + second for first in SPECIAL for second in SPECIAL)
# No argument has a zero.
WORDS = (*SPECIAL, PAIRS, bytes(range(1, 256)), bytes(range(255, 0, -1)))
SUMS = ("a" * 64, "b" * 64)


def test_what_a_shell_writes(shell: str) -> None:
    """Each word of a line is the same again, and none has a blank or ends the line."""
    script = f'{text("record")}record "$@"; record end'
    argv = [os.fsencode(each) for each in (*SHELLS[shell], "-c", script, "sh")]
    done = subprocess.run(
        [*argv, *WORDS], env=environment(shell), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b"" and done.stdout.isascii()
    names = tuple(map(os.fsdecode, WORDS))
    line, *more = done.stdout.decode().split("\n")
    assert (words_of(line), line, more) == (names, line_of(*names), ["end", ""])


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1))
def test_what_python_writes(words: list[str]) -> None:
    """It is the same grammar; half a character of no encoding is a byte, where it is one."""
    known = [os.fsdecode(word.encode("utf-8", "replace")) for word in words]
    assert words_of(line_of(*known)) == tuple(known)


@settings(max_examples=examples(500), deadline=None)
@given(st.text(st.sampled_from("ab/ \\0147é\n-")))
def test_no_other_line_is_read(line: str) -> None:
    """What is read is what is written of it."""
    words = words_of(line)
    assert not words or line_of(*words) == line


@settings(max_examples=examples(500), deadline=None)
@given(
    st.one_of(st.just(""), st.from_regex(r"[0-7]{1,4}", fullmatch=True)),
    st.integers(0, 2**32 - 1),
    st.text(st.characters(exclude_characters="\0"), min_size=1),
)
def test_a_change(mode: str, owner: int, name: str) -> None:
    """Each mode, owner and path of a file is read as it was."""
    path = f"/{os.fsdecode(name.encode('utf-8', 'replace'))}"
    before, owners = (SUMS[0], f"{owner}:{owner}") if mode else (ABSENT, "")
    line = line_of(before, SUMS[1], mode or "-", owners or "-", "alice", path)
    assert change_of(line) == Change(before, SUMS[1], mode, owners, "alice", path)
    assert path_of(line) == path
