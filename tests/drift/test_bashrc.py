"""Our blocks of a start file: they come and go, and every other byte stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.drift.env.bashrc import Blocks, body, with_blocks, with_conf, without_blocks
from gpu_node.facts.env.start_files import BLOCKS, Setting, assignments, parse_start_file

RETURN = "case $- in\n    *i*) ;;\n      *) return;;\nesac\n"
TOP, LAST = Blocks("export A='1'\n"), Blocks("export A='1'\n", "export A='1'\n")
BEGIN, END = BLOCKS.begin, BLOCKS.end
LINES = st.sampled_from(["export A=2", "", "\r", "# x", RETURN, BEGIN, END, "export B='", "\xff"])
TEXTS = st.builds("".join, st.lists(st.one_of(LINES, st.just("\n")), max_size=12))


def test_every_other_byte_stays() -> None:
    """Whatever stands there: without our blocks the text is the one without them."""

    @settings(max_examples=300, deadline=None)
    @given(TEXTS, st.sampled_from([TOP, LAST]), st.sampled_from([Blocks(), TOP, LAST]))
    def check(text: str, first: Blocks, second: Blocks) -> None:
        own = without_blocks(text)
        once = with_blocks(text, first)
        assert without_blocks(once) == own
        assert with_blocks(once, first) == once
        assert with_blocks(once, second) == with_blocks(own, second)

    check()


@pytest.mark.parametrize("blocks", [TOP, LAST])
@pytest.mark.parametrize("text", ["", "x", "x\n", "x\r\ny", RETURN, "\n\n"])
def test_a_text_that_has_none_of_ours(text: str, blocks: Blocks) -> None:
    """Removed again, nothing of ours is left: not even a newline."""
    assert without_blocks(with_blocks(text, blocks)) == text


def test_a_line_below_our_last_block() -> None:
    """What a user appended later is kept, on a line of its own."""
    once = with_blocks("x", LAST) + "y\n"
    assert without_blocks(once) == "x\ny\n"
    assert with_blocks(once, LAST).index("y\n") < with_blocks(once, LAST).rindex(BEGIN)


def test_a_mark_without_its_end_takes_nothing_along() -> None:
    """Lines between a begin that lost its end and another block are a user's."""
    text = f"{BEGIN}\nexport A='1'\nalias l=ls\n" + with_blocks("", TOP)
    assert without_blocks(text) == f"{BEGIN}\nexport A='1'\nalias l=ls\n"


def test_nccl_conf_has_ours_first() -> None:
    """Of a name given twice NCCL takes the first, and a comment has no = in it."""
    text = with_conf("NCCL_SOCKET_IFNAME=bond0", "NCCL_SOCKET_IFNAME==eno1\n")
    settings = [line for line in text.splitlines() if "=" in line]
    assert settings == ["NCCL_SOCKET_IFNAME==eno1", "NCCL_SOCKET_IFNAME=bond0"]


def _bash(home: Path, *options: str) -> str:
    """What A is in a bash that believes that sshd started it, or an interactive one."""
    done = subprocess.run(
        ["bash", *options, "-c", 'printf "%s" "${A-unset}"'],
        env={"HOME": str(home), "SSH_CLIENT": "x", "SHLVL": "0", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


@pytest.mark.parametrize("value", ["=eno1", "it's", '$HOME `id` \\ "', "", "* ~ #"])
def test_bash_has_the_value_in_every_kind_of_shell(tmp_path: Path, value: str) -> None:
    """Above an early return, and below the user's own line."""
    lines = body({"A": value})
    text = with_blocks(f"{RETURN}export A=bond0", Blocks(lines, lines))
    (tmp_path / ".bashrc").write_text(text)
    assert [_bash(tmp_path), _bash(tmp_path, "-i")] == [value, value]


def test_bash_has_none_where_it_is_taken_out(tmp_path: Path) -> None:
    """For a launcher that sends what its shell has."""
    lines = body({"A": None})
    (tmp_path / ".bashrc").write_text(with_blocks("export A=bond0\n", Blocks(lines, lines)))
    assert [_bash(tmp_path), _bash(tmp_path, "-i")] == ["unset", "unset"]


RETURNS = {
    RETURN: 3,
    '[ -z "$PS1" ] && return\n': 1,
    "[[ $- != *i* ]] && return\n": 1,
    "[[ $- == *i* ]] || return 0\n": 1,
    "if [ -z $PS1 ]; then\n  return\nfi\n": 2,
    "test -t 1 || exit\n": 1,
    "# [ -z $PS1 ] && return\n": None,
    "f() {\n  return 1\n}\n": None,
    "PS1='x'\nalias a=b\nalias c=d\nalias e=f\nalias g=h\nalias i=j\nreturn\n": None,
    "x-exit\n": None,
}


@pytest.mark.parametrize("text", RETURNS)
def test_where_a_shell_without_a_terminal_leaves(text: str) -> None:
    """The forms that distributions and people write, and what only looks so."""
    numbered = [f"{number}\t{line}" for number, line in enumerate(text.splitlines(), 1)]
    count = len(numbered)
    assert parse_start_file("\n".join([*numbered, f"lines\t{count}"])).returns == RETURNS[text]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("export A=1 B='2 3'", [("A", "1"), ("B", "2 3")]),
        ("A=1; export A", [("A", "1")]),
        ("A=1 python x.py", []),
        ("unset -v A B", [("A", None), ("B", None)]),
        ("declare -x A=1 # why", [("A", "1")]),
        ("  if x; then export A=1; fi", [("A", "1")]),
        ("x && { export A=1; }", [("A", "1")]),
        ("alias t='A=1 python'", []),
        ("export A", []),
        ("export A=", [("A", "")]),
        ('export A="not closed', [("A", "not")]),
        ("export A=1\r", [("A", "1\r")]),
    ],
)
def test_what_a_line_of_shell_sets(line: str, found: list[tuple[str, str | None]]) -> None:
    """For good: a variable in front of a command is gone with it."""
    assert assignments("~/.bashrc", line) == found


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("/etc/environment", 'A="FOO"', [("A", "FOO")]),
        ("/etc/environment", "export A='1' # why", [("A", "1")]),
        ("/etc/environment", "# A=1", []),
        ("~/.pam_environment", "A DEFAULT=1", [("A", "1")]),
        ("~/.pam_environment", "A OVERRIDE=@{HOME}", [("A", "@{HOME}")]),
        ("~/.pam_environment", 'A DEFAULT="1 2" OVERRIDE=${B}', [("A", "${B}")]),
        ("~/.pam_environment", 'A\tDEFAULT="1 2" OVERRIDE=""', [("A", "1 2")]),
        ("~/.pam_environment", "A=1", [("A", "1")]),
    ],
)
def test_what_a_line_of_pam_sets(path: str, line: str, found: list[tuple[str, str]]) -> None:
    """Without the quotes, and by the syntax of its own where that is used."""
    assert assignments(path, line) == found


@pytest.mark.parametrize(
    ("path", "value", "is_plain"),
    [
        ("~/.pam_environment", "@{HOME}", False),
        ("~/.pam_environment", "1", True),
        ("~/.bashrc", "@{HOME}", True),
        ("~/.bashrc", "${B}", False),
    ],
)
def test_a_value_that_is_computed(path: str, value: str, is_plain: bool) -> None:
    """By a shell or by PAM, which has a sign of its own."""
    assert Setting(path=path, line=1, name="A", value=value).is_plain == is_plain
