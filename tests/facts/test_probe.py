"""The probe's script in real shells: what a section says comes back whole, or is unreadable."""

from __future__ import annotations

import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.facts import node
from gpu_node.facts.probe.lines import decoded, lines_of
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import MARK, Reading, Section, Times, read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.toolchain import state as toolchain
from gpu_node.inventories.connection import capped as commands
from tests.shells import SHELLS, as_lines, ask, busybox_machine, machine_with, run

ODD = r"printf '\377\376'"
IMITATION = rf"printf '\n{MARK} end a.a\n\n{MARK} begin a.b 0 raw 5\nwrong\n{MARK} end a.b\n'"
# Command, exit code and text; None stands for what is not text at all.
OUTPUTS = {
    "plain": ("echo hello", 0, "hello"),
    "nothing": (":", 0, ""),
    "no-newline": ("printf hello", 0, "hello"),
    "blank-lines-inside": (r"printf '\n\na\n\nb'", 0, "\n\na\n\nb"),
    "tab": (r"printf 'a\tb'", 0, "a\tb"),
    "utf8": ("echo 'größe 显存 ✗'", 0, "größe 显存 ✗"),
    "carriage-return": (r"printf 'a\r\nb\r\n'", 0, "a\r\nb\r"),
    "other-control-bytes": (r"printf '\033[31m\f\v\177'", 0, "\x1b[31m\\x0c\\x0b\x7f"),
    "nonzero": ("echo half; exit 7", 7, "half"),
    "stderr": ("echo oops >&2; exit 1", 1, "oops"),
    "stdin-is-at-its-end": ("cat; echo end", 0, "end"),
    "c-locale": ('echo "$LC_ALL"', 0, "C"),
    "quotes": ("""echo '"'"it's"'$x`y`\\'""", 0, "\"it's$x`y`\\"),
    "backslashes": ("""printf '%s' 'a\\nb\\0c%d'""", 0, "a\\nb\\0c%d"),
    "unset-variable": ('echo "[$gn_no_such_variable]"', 0, "[]"),
    "imitation": (IMITATION, 0, f"\n{MARK} end a.a\n\n{MARK} begin a.b 0 raw 5\nwrong\n"
                  f"{MARK} end a.b"),
    "syntax-error": ("if", 2, None),
    "signal": ("kill -TERM $$", 143, None),
}  # fmt: skip
NEXT = Section("a.next", "echo still here")


def test_a_section_arrives_unchanged(shell: str) -> None:
    """Exit code and text of every kind of answer arrive, and none spoils another."""
    sections = [Section(f"a.{name}", output[0]) for name, output in OUTPUTS.items()]
    readings = ask(shell, [*sections, NEXT]).sections
    for name, (_, rc, text) in OUTPUTS.items():
        reading = readings[f"a.{name}"]
        assert (reading.rc, reading.problem) == (rc, None), name
        assert text is None or reading.text == text, name
    assert readings["a.next"] == Reading(0, "still here")


def test_what_is_not_utf8_is_read_with_escapes(shell: str) -> None:
    """Bytes in another coding cost neither another section nor other lines of their own."""
    readings = ask(shell, [Section("a.gbk", rf"echo fine; {ODD}; echo; echo fine"), NEXT])
    fine, odd, last = (readings.take("a.gbk", lines_of) or [])[:3]
    assert (fine, last) == ("fine", "fine") and odd.isascii() and "\\x" in odd
    assert readings.take("a.next", str) == "still here"


def test_nul_bytes_spoil_no_other_section(shell: str) -> None:
    """No shell keeps a NUL byte in a variable (bash says so on stderr); all else is there."""
    sections = [Section("a.nul", r"printf 'a\0b'"), NEXT]
    readings = read(as_lines(run(shell, render(sections)).stdout), sections).sections
    assert readings["a.nul"] == Reading(0, "ab")
    assert readings["a.next"] == Reading(0, "still here")


SLOW = {
    "with timeout": ("echo first; sleep 20 | cat", ()),
    "without timeout": ("exec sleep 20", ("timeout",)),
}


@pytest.mark.parametrize("machine", SLOW)
def test_a_section_that_takes_too_long_is_unreadable(machine: str, tmp_path: Path) -> None:
    """Where there is no timeout(1) a background shell keeps the time; the rest is read."""
    command, less = SLOW[machine]
    env = machine_with(tmp_path / "bin", *less)
    sections = [Section("a.slow", command, 1), NEXT]
    with ThreadPoolExecutor() as pool:  # each of them waits for the limit
        answers = pool.map(lambda shell: ask(shell, sections, env), SHELLS)
    for shell, readings in zip(SHELLS, answers, strict=True):
        assert readings.take("a.slow", str) is None, shell
        assert readings.unread[0].reason == "no answer within 1 s", shell
        assert readings.take("a.next", str) == "still here", shell


@pytest.mark.parametrize("less", [(), ("timeout",)], ids=["timeout", "no-timeout"])
def test_a_child_in_the_background_does_not_hold_the_answer(
    less: tuple[str, ...], tmp_path: Path
) -> None:
    """What a section leaves running keeps its output open, and the time limit holds."""
    env = machine_with(tmp_path / "bin", *less)
    sections = [Section("a.leaves", "sleep 60 & echo hello", 1), NEXT]
    with ThreadPoolExecutor() as pool:
        start = time.monotonic()
        answers = list(pool.map(lambda shell: ask(shell, sections, env), SHELLS))
        assert time.monotonic() - start < 40
    for shell, readings in zip(SHELLS, answers, strict=True):
        assert readings.take("a.leaves", str) is None, shell
        assert readings.take("a.next", str) == "still here", shell


def test_without_timeout_a_quick_section_is_read_at_once(shell: str, tmp_path: Path) -> None:
    """The background shell that keeps the time does not hold the answer back."""
    env = machine_with(tmp_path / "bin", "timeout")
    done = run(shell, render([Section("a.quick", "echo hello; exit 3", 20)]), env=env, seconds=5)
    reading = read(as_lines(done.stdout), [Section("a.quick", "")]).sections["a.quick"]
    assert reading == Reading(3, "hello")


def test_a_machine_of_busybox_alone_answers(tmp_path: Path) -> None:
    """Every program may be busybox's."""
    env = busybox_machine(tmp_path / "bin")
    sections = [Section("a.utf8", "echo größe"), Section("a.slow", "exec sleep 20", 1), NEXT]
    readings = ask("busybox", sections, env)
    assert readings.take("a.utf8", str) == "größe"
    assert readings.take("a.slow", str) is None
    assert readings.take("a.next", str) == "still here"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=8))
def test_any_text_comes_back(texts: list[str]) -> None:
    """Whatever a section prints, the same text is read, less the newlines at its end."""
    sections = [
        Section(f"a.n{number}", f"printf %s {shlex.quote(text)}")
        for number, text in enumerate(texts)
    ]
    readings = ask("dash", sections)
    found = [readings.sections[section.name].text for section in sections]
    assert found == [decoded(text.encode()).rstrip("\n") for text in texts]


@pytest.mark.parametrize("noise", ["Welcome!", "Welcome! \n", f"{MARK} begin\n", f"{MARK} end a.x"])
def test_noise_in_front_does_no_harm(shell: str, noise: str) -> None:
    """A bashrc that greets, with or without a newline at the end, changes nothing."""
    script = f"printf %s {shlex.quote(noise)}\n{render([NEXT])}"
    readings = read(as_lines(run(shell, script).stdout), [NEXT])
    assert readings.sections["a.next"] == Reading(0, "still here")


def test_noise_in_the_middle_is_no_value() -> None:
    """A background program that prints into a section makes that one unreadable only."""
    sections = [Section("a.one", "echo hello"), NEXT]
    output = run("dash", render(sections)).stdout.decode().replace("hello", "heDing!llo")
    readings = read(output.split("\n"), sections)
    assert readings.take("a.one", str) is None
    assert readings.take("a.next", str) == "still here"


CUT = [
    Section("a.plain", "echo 8388608; echo 12"),
    Section("a.hex", "echo größe"),
    Section("a.fails", "exit 12"),
    Section("a.empty", ":"),
    Section("a.imitates", rf"printf '{MARK} begin a.plain 0 raw 2\n77\n'"),
    Section("a.last", "echo 16384"),
]


def test_a_cut_answer_never_gives_a_wrong_value() -> None:
    """Wherever the answer ends, each section has its right value or is unreadable."""
    output = run("dash", render(CUT)).stdout.decode()
    whole = read(output.split("\n"), CUT).sections
    assert all(reading.problem is None for reading in whole.values())
    for end in range(len(output)):
        for name, reading in read(output[:end].split("\n"), CUT).sections.items():
            assert reading.problem is not None or reading == whole[name], (end, name)


@pytest.mark.parametrize(
    ("shell", "sh"),
    [
        # Each shell once in both places; all other pairs are in the lane `slow`.
        pytest.param(shell, sh, marks=() if sh == theirs else pytest.mark.slow)
        for shell, theirs in zip(SHELLS, [*[*SHELLS][1:], next(iter(SHELLS))], strict=True)
        for sh in SHELLS
    ],
)
def test_the_whole_probe_is_readable_here(shell: str, sh: str, tmp_path: Path) -> None:
    """Every section of every area gives an answer, whatever runs the probe and its sections."""
    env = machine_with(tmp_path / "bin", sh=sh)
    done = run(shell, render(node.SECTIONS), env=env)
    state = node.parse(as_lines(done.stdout))
    assert state.unreadable == ()
    assert state.shm.memory is not None


def test_a_machine_of_busybox_alone_is_readable(tmp_path: Path) -> None:
    """Every section of every area can be answered by busybox's programs."""
    done = run("busybox", render(node.SECTIONS), env=busybox_machine(tmp_path / "bin"))
    assert node.parse(as_lines(done.stdout)).unreadable == ()


@pytest.mark.parametrize("output", [[], [""], ["Connection closed"], ["\n"] * 3])
def test_silence_is_no_state(output: list[str]) -> None:
    """A node that says nothing has every section unreadable and no value at all."""
    state = node.parse(output)
    assert {unread.section for unread in state.unreadable} == {
        section.name for section in node.SECTIONS
    }
    values = state.model_dump(exclude={"unreadable"}).values()
    assert not any(value for area in values for value in area.values())


@pytest.mark.parametrize("machine", ["without timeout", "busybox alone"])
def test_the_limit_reaches_programs_below_the_section(machine: str, tmp_path: Path) -> None:
    """A program in a pipe that hangs does not hold the whole answer back."""
    folder = tmp_path / "bin"
    env = machine_with(folder, "timeout") if machine[0] == "w" else busybox_machine(folder)
    sections = [Section("a.slow", "sleep 60 | cat", 1), NEXT]
    started = time.monotonic()
    readings = ask("busybox" if machine[0] == "b" else "dash", sections, env)
    assert readings.take("a.next", str) == "still here"
    assert time.monotonic() - started < 30


def test_a_cut_answer_never_gives_a_value_out_of_another_section() -> None:
    """A section that imitates a whole other one is cut: what it says is still its own."""
    imitation = rf"printf '\n{MARK} begin a.two 0 raw 2\n77\n{MARK} end a.two\nmore\n'"
    sections = [Section("a.one", imitation), Section("a.two", "echo 12")]
    output = run("dash", render(sections)).stdout.decode()
    for end in range(len(output)):
        reading = read(output[:end].split("\n"), sections).sections["a.two"]
        assert reading.problem is not None or reading.text == "12", end


def test_a_section_that_lost_its_end_forges_no_other(shell: str) -> None:
    """As when a shell of light sections is killed while it prints what a user has written."""
    forged = rf"printf '\n{MARK} begin a.one 0 raw 6\nforged\n{MARK} end a.one\n'"
    texts = {"a.one": "echo honest", "a.two": forged, "a.three": "seq 99"}
    for light in (True, False):
        sections = [Section(name, text, light=light) for name, text in texts.items()]
        lines = as_lines(run(shell, render(sections)).stdout)
        left = [line for line in lines if not line.startswith(f"{MARK} end a.two")]
        readings = read(left, sections).sections
        assert readings["a.one"] == Reading(0, "honest")
        assert readings["a.two"].problem is not None and readings["a.three"].rc == 0


@pytest.mark.parametrize(
    "sudo", [pytest.param(False, id="", marks=pytest.mark.slow), pytest.param(True, id="sudo")]
)
@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_a_user_who_fills_sections_hides_no_other(shell: str, sudo: bool, tmp_path: Path) -> None:
    """An answer is not longer than a connection takes, and what comes first is read."""
    full = "head -c 1000000 /dev/zero | tr '\\0' '\\377'"  # twice as long as hex
    many = "head -c 11000000 /dev/zero | tr '\\0' x"
    sections = [
        Section("a.list", many, bytes=12 << 20),
        Section("a.other-list", many, bytes=12 << 20),
        Section("a.first", "echo first", root=True, light=True),
        Section("a.own", "echo own"),
        *(Section(f"a.full{at}", full, root=True, light=at % 2 == 0) for at in range(12)),
        Section("a.end", "echo end", place="last", light=True),
    ]
    program = tmp_path / "sudo"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    ids = tmp_path / "id"  # not root, until sudo runs
    ids.write_text('#!/bin/sh\n[ -n "$gn_user" ] && exec /usr/bin/id "$@"\necho 1000\n')
    ids.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}" if sudo else os.environ["PATH"]
    done = run(shell, render(sections, sudo=sudo), env={"PATH": path, "SUDO_USER": "me"})
    assert len(done.stdout) < commands.MOST_BYTES
    readings = read(as_lines(done.stdout), sections).sections
    found = {name for name, each in readings.items() if each.problem is None}
    assert {"a.first", "a.own", "a.end", "a.list"} <= found, readings["a.end"]
    assert readings["a.other-list"].problem is not None


def test_a_cmake_that_says_nothing_is_a_broken_one(tmp_path: Path) -> None:
    """As one does that crashes: it is found, without a version, and not unreadable."""
    env = machine_with(tmp_path / "bin")
    (tmp_path / "bin" / "cmake").write_text("#!/bin/sh\nexit 139\n")
    (tmp_path / "bin" / "cmake").chmod(0o755)
    readings = ask("dash", toolchain.Toolchain.sections, env)
    cmakes = readings.take("toolchain.cmake", toolchain.parse_cmake)
    assert readings.unread == []
    assert cmakes is not None
    assert [cmake.version for cmake in cmakes.found] == [None]


@pytest.mark.parametrize("sudo", [False, True])
def test_the_ends_of_a_probe(shell: str, sudo: bool, tmp_path: Path) -> None:
    """A section may be before or after all others, those that sudo runs included."""
    count = f"echo x >>{tmp_path}/count; grep -c x {tmp_path}/count"
    sections = [
        Section("a.last", count, place="last"),
        Section("a.root", count, root=True),
        Section("a.one", count),
        Section("a.first", count, place="first"),
    ]
    answer = run(shell, render(sections, sudo=sudo))
    readings = read(as_lines(answer.stdout), sections, Times(1.0, 2.0))
    found = {name: reading.require() for name, reading in readings.sections.items()}
    middle = {"a.root": "3", "a.one": "2"} if sudo else {"a.root": "2", "a.one": "3"}
    assert found == {"a.first": "1", **middle, "a.last": "4"}
    assert readings.times == Times(1.0, 2.0)


def test_the_probe_has_one_way_to_run_sh_as_the_training_user() -> None:
    """Each section would have it again, and every node is sent all of it."""
    peers = (Peer(name="a", address="192.0.2.1"),)
    request = ProbeRequest(nodes=peers, user="train", mesh=True)
    assert render(node.sections(request)).count("su -s /bin/sh") == 2  # the other is owner.sh's
