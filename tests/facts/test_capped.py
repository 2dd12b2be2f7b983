"""What a node prints without end is cut there, section by section, and read here in linear time."""

from __future__ import annotations

import time

import pytest

from gpu_node.facts.driver.kernels import parse_kernels
from gpu_node.facts.env.state import parse_settings
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable, read, render
from gpu_node.facts.probe.shell import LIMITED
from gpu_node.facts.workspace import mounts
from tests.shells import as_lines, run

PLAIN = Section("plain", "echo here; exit 3")
LONG = "cut: it printed more than a section may, or its shell was killed; the rest was not sent"


def asked(shell: str, *sections: Section) -> Readings:
    """What a node answers."""
    return read(as_lines(run(shell, render(sections)).stdout), sections)


@pytest.mark.parametrize(
    "command",
    [
        "yes",
        "cat /dev/zero",
        "yes >&2",
        "while :; do echo x; done",
        r"while :; do printf '\377\n'; done",
        "(yes) & sleep 1",
    ],
)
def test_a_section_without_end(shell: str, command: str) -> None:
    """It alone is unreadable, at once."""
    began = time.monotonic()
    endless = Section("one", command, seconds=9, bytes=20_000)
    found = asked(shell, PLAIN, endless, Section("last", "echo there")).sections
    assert found["one"].problem == LONG
    assert (found["plain"].rc, found["plain"].text) == (3, "here")
    assert found["last"].require() == "there"
    assert time.monotonic() - began < 15


def test_what_is_not_too_long(shell: str) -> None:
    """Up to the limit all of it comes, with its exit code."""
    sections = (
        Section("full", "head -c 9990 /dev/zero | tr '\\0' x; exit 42", bytes=10_000),
        Section("digits", "printf 123", bytes=100),
        Section("lines", "echo; echo 7; echo; exit 0", bytes=100),
        Section("nothing", ":", bytes=100),
        Section("false", "false", bytes=100),
    )
    found = asked(shell, *sections).sections
    assert (found["full"].rc, found["full"].text) == (42, "x" * 9990)
    assert [found[name].text for name in ("digits", "lines", "nothing")] == ["123", "\n7", ""]
    assert (found["false"].rc, found["nothing"].rc) == (1, 0)


def test_a_program_without_end(shell: str) -> None:
    """Its output is not gathered in the shell."""
    script = (
        f"{LIMITED}\nlimited 9 yes; echo $code ${{#output}}; limited 9 both sh -c 'echo a; echo b"
        " >&2; exit 5'; echo $code $output; limited 9 cat /dev/zero; echo $code ${#output}"
    )
    assert run(shell, script).stdout.decode().splitlines() == ["153 0", "5 a b", "153 0"]


def seconds(work: object) -> float:
    """The processor's seconds that a call takes."""
    began = time.process_time()
    assert callable(work)
    work()
    return time.process_time() - began


def test_lines_about_mounts() -> None:
    """However many there are."""
    assert seconds(lambda: mounts.parse("mountpoint\n" * 300_000)) < 3
    assert mounts.parse("unmounted /a\nmountpoint\nrest\n") == (
        {"unmounted": "/a", "is_mount": True},
        "rest\n",
    )


def test_a_line_of_a_start_file() -> None:
    """shlex adds a word up one character at a time: a long line is not given to it."""
    text = "NCCL_DEBUG\n~/.bashrc\t1\texport NCCL_DEBUG=" + "(" * 900_000
    with pytest.raises(ValueError, match="has a line of 9000"):
        parse_settings(text)
    assert seconds(lambda: parse_settings("\n~/.bashrc\t1\tNCCL_DEBUG=" + "[" * 16_000)) < 3


def test_any_number_of_kernels() -> None:
    """Each is judged beside the others: more than a node has are not read."""
    rows = [f"kernel\t6.{number}.0\tyes\tyes\t\t\t\t" for number in range(1000)]
    with pytest.raises(Unreadable, match="more than 128 kernels"):
        parse_kernels("\n".join(["running\t6.1.0", *rows]))
