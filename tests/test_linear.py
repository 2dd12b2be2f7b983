"""What reads a node's answer takes time in proportion to its length, whatever a user writes."""

from __future__ import annotations

import gc
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

import pytest

from gpu_node.diagnose.cause import (
    Cause,
    causes,
    comparisons,
    exceptions,
    meanings,
    speakers,
    stages,
    starts,
)
from gpu_node.diagnose.scan import KEPT, NEAR_SIZE
from gpu_node.drift.env.bashrc import Blocks, with_blocks
from gpu_node.drift.env.user_settings import our_conf_lines
from gpu_node.drift.network.ifname import CONF
from gpu_node.facts.env.start_files import BLOCKS
from gpu_node.facts.env.state import Line
from gpu_node.facts.probe.managed_block import NODES, Markers
from tests.drift import states
from tests.facts.case_answers import ANSWERS, parsed
from tests.pace import pace
from tests.patterns import Use, texts, uses

ROOMS = ("deploy", "diagnose", "drift", "facts", "history", "onboarding", "verify")
USES, UNKNOWN = uses(ROOMS)
# What is applied to a shorter text only, and the length of that text.
BOUNDED = {
    "verify/ranks.py: _IB": 2000,
    "verify/ranks.py: _SOCKET": 2000,
    # A line of a log, of which a part is kept, or one of its last 128 KiB.
    **{each.place: KEPT for each in USES if each.place.startswith("diagnose/")},
    **{each.place: 128 * 1024 for each in USES if each.place.startswith("diagnose/ending.py")},
    "diagnose/origin.py: _PREFIXES": 300,
}
# Expressions with a value that is known only in a run: none has a repetition beside another.
OF_A_RUN = {
    "deploy/engine/scripts.py: f'^# {re.escape(what)}: (.+)$'",
    "diagnose/cause.py: each.file",
    "diagnose/cause.py: each.line",
    "diagnose/cause.py: line",
    "diagnose/cause.py: self.line",
    "diagnose/cause.py: self.without",
    "diagnose/cause.py: '|'.join(of)",
    "diagnose/compared.py: each.line",
    "diagnose/compared.py: start.line",
    "diagnose/match.py: each",
    "diagnose/match.py: pattern.line",
    "drift/driver/install_plan.py: f'{re.escape(version)}(?![0-9])'",
    "drift/driver/rules_updates.py: _HELD[kind]",
    "drift/tables.py: words",
    "drift/toolchain/rules_packages.py: f'libbitsandbytes_cuda{re.escape(major)}\\\\d+\\\\.so'",
    "facts/ask/sudo.py: known.pattern",
    "facts/probe/managed_block.py: self.line",
}
# Four times the text takes four times as long, and sixteen times as long where time is quadratic.
MOST_GROWTH = 9
# Less is no measure: other tests run at the same time.
LEAST_SECONDS = 0.05
# Of one line of a log, of which there may be thousands: time that grows with the square takes more.
LEAST_SECONDS_LINE = 0.02
# Of the shorter text: enough on a slow processor, and an end where time grows without bound.
MOST_SECONDS = 10
# Of a text of 1 MB: about four seconds on a processor of 2024, a quarter of the time of a report.
MOST_PACES = 160
# Long texts are read in a quarter of that size and time, which shows the same.
PART = 4


# What a parser may raise for a text that is no answer; the caller reports it.
NO_ANSWER = (ValueError, LookupError, TypeError, AssertionError)


@pytest.fixture(scope="module")
def most_seconds() -> float:
    """Of a text of 1 MB; the pace of the machine is measured once, in a third of a second."""
    return MOST_PACES * pace()


class Late(BaseException):
    """It takes more processor time than any linear way does."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Late after some seconds of processor time."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seconds(work: Callable[[str], object], text: str, most: float) -> float:
    """Return the processor time of some work, at most `most`.

    The garbage collector is off: its time depends on all objects of the process, and a long text
    starts it where a short one does not.
    """
    gc.disable()
    began = time.process_time()
    try:
        with limited(most), suppress(*NO_ANSWER):
            work(text)
    except Late:
        return most
    finally:
        gc.enable()
    return time.process_time() - began


def grows(
    work: Callable[[str], object],
    make: Callable[[int], str],
    size: int,
    least: float = LEAST_SECONDS,
) -> bool:
    """Whether the time grows faster than the text, which has `size` characters, then four times."""
    for _ in range(3):  # another process may have the processor's caches
        if seconds(work, make(4 * size), least) < least:
            return False
        of_shorter = seconds(work, make(size), MOST_SECONDS)
        if of_shorter >= MOST_SECONDS:
            return True
        most = MOST_GROWTH * of_shorter
        if seconds(work, make(4 * size), most) < most:
            return False
    return True


def test_each_expression_is_known() -> None:
    """What is found neither in a module nor in a call is not tested here."""
    assert len(USES) > 150
    assert UNKNOWN == OF_A_RUN
    assert {*BOUNDED} <= {each.place for each in USES}


@pytest.mark.parametrize("use", sorted(USES, key=str), ids=lambda use: f"{use.place} {use.method}")
def test_an_expression_takes_linear_time(use: Use) -> None:
    """On each text that is made of its own beginnings and repetitions."""
    size = min(8000, BOUNDED.get(use.place, 32_000) // 4)
    bad = [each for each in texts(use.pattern, use.flags) if grows(use.apply, each, size)]
    assert [each(40) for each in bad] == []


@pytest.mark.slow
@pytest.mark.parametrize("use", sorted(USES, key=str), ids=lambda use: f"{use.place} {use.method}")
def test_an_expression_reads_1_mb(use: Use, most_seconds: float) -> None:
    """A quarter of the most that a node may send without a list of files, in parts."""
    size = BOUNDED.get(use.place, 1_250_000 // PART)
    for each in texts(use.pattern, use.flags):
        with limited(most_seconds / PART):
            use.apply(each(size))


def test_what_shows_an_emitter_or_a_stage_takes_linear_time() -> None:
    """On a line of a log."""
    expressions = {each.line for each in speakers()}
    expressions |= {each.without for each in speakers()} | {
        each.line for each in (*meanings(), *starts(), *comparisons(), *exceptions())
    }
    expressions |= {each.file for each in exceptions()}
    expressions |= {each.pattern for each in stages().values()}
    bad = [
        (expression, each(40))
        for expression in sorted(expressions - {""})
        for each in texts(expression)
        if grows(re.compile(expression).search, each, KEPT // 4, LEAST_SECONDS_LINE)
    ]
    assert bad == []


@pytest.mark.parametrize("cause", causes().values(), ids=causes())
def test_a_pattern_of_a_cause_takes_linear_time(cause: Cause) -> None:
    """On a line, and on the text of all lines that are near."""
    lines = {pattern.line for pattern in cause.patterns if pattern.line}
    near = {each for pattern in cause.patterns for each in (*pattern.near, *pattern.without)}
    applied = [(each, 0, KEPT, LEAST_SECONDS_LINE) for each in sorted(lines)]
    applied += [(each, re.MULTILINE, NEAR_SIZE, LEAST_SECONDS) for each in sorted(near)]
    bad = [
        (expression, each(40))
        for expression, flags, size, least in applied
        for each in texts(expression, flags)
        if grows(re.compile(expression, flags).search, each, size // 4, least)
    ]
    assert bad == []


@pytest.mark.slow
def test_what_is_quadratic_is_found() -> None:
    """The measure itself: a pattern as our blocks once had, and two that are searched for."""
    begin = r"(?m)^# >>> gpu-node$\n(?P<body>(?:(?!# <<<).*\n)*)# <<<$"
    known = (
        (begin, "sub", 10_000),
        (r"[a-z]+b", "search", 3000),
        (r"(?m)^[^#]*[&*]\w", "search", 3000),
    )
    for pattern, method, size in known:
        use = Use("here", pattern, 0, method)
        assert any(grows(use.apply, each, size) for each in texts(pattern)), pattern


MARKERS = {"nodes": NODES, "start file": BLOCKS}
WORK: dict[str, Callable[[Markers, str], object]] = {
    "find": lambda markers, text: markers.find(text),
    "remove": lambda markers, text: markers.remove(text),
    "replace": lambda markers, text: markers.replace(text, markers.block("a=1\n")),
    "unclosed": lambda markers, text: markers.is_unclosed(text),
    "with blocks": lambda _, text: with_blocks(text, Blocks(top="a=1\n", end="a=1\n")),
}
BODIES = ("", "export A=1\n", "alias l=ls\n", "{begin}\n", "{begin}\n{end}\n")


def marked(markers: Markers, body: str) -> Callable[[int], str]:
    """Return a function that makes a text of marker lines, with others between them."""
    lines = f"{markers.begin}\n{body.format(begin=markers.begin, end=markers.end)}"
    return lambda size: lines * (size // len(lines))


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize("markers", MARKERS.values(), ids=MARKERS)
@pytest.mark.parametrize("body", BODIES)
def test_a_file_of_marker_lines(
    markers: Markers, body: str, work: Callable[[Markers, str], object], most_seconds: float
) -> None:
    """A user may fill a start file with them: 1 MiB took 8 s."""
    make = marked(markers, body)
    assert not grows(lambda text: work(markers, text), make, 50_000)
    with limited(most_seconds):
        work(markers, make(1 << 20))


@pytest.mark.parametrize("body", BODIES)
def test_a_conf_of_marker_lines(body: str) -> None:
    """Each block of /etc/nccl.conf has numbers of lines."""
    healthy = states.state({}).env

    def work(text: str) -> None:
        lines = [
            Line.model_construct(path=CONF, line=number, text=each)
            for number, each in enumerate(text.split("\n"), 1)
        ]
        our_conf_lines(healthy.model_copy(update={"conf": tuple(lines)}))

    assert not grows(work, marked(BLOCKS, body), 20_000)


def repeated(text: str) -> Iterator[Callable[[int], str]]:
    """Yield functions that make long answers of a short one."""
    lines = list(dict.fromkeys(text.split("\n")))
    parts = [text, *(f"{line}\n" for line in lines), *lines]
    parts += [f"{line.split(mark)[0]}{mark}" for line in lines for mark in "\t =:" if mark in line]
    yield from (partial(_times, "", part) for part in dict.fromkeys(filter(None, parts)))
    yield from (partial(_times, f"{text}\n{line}", line[-1]) for line in filter(None, lines))


def _times(before: str, part: str, size: int) -> str:
    return before + part * (size // len(part) + 1)


@pytest.mark.parametrize("section", sorted(ANSWERS))
def test_a_parser_takes_linear_time(section: str) -> None:
    """On its own recorded answers, of which a part is repeated."""
    text = min(ANSWERS[section], key=len)[:2000]
    bad = [
        each for each in repeated(text) if grows(lambda given: parsed(section, given), each, 5000)
    ]
    assert [each(60)[:200] for each in bad] == []


@pytest.mark.slow
@pytest.mark.parametrize("section", sorted(ANSWERS))
def test_a_parser_reads_all_that_a_section_may_print(section: str) -> None:
    """On every answer: a section prints 1 MiB at most, and a part of that shows the same."""
    # Many answers have the same lines.
    long = {each(4000): each for text in ANSWERS[section] for each in repeated(text[:2000])}
    size, least = (1 << 18) // PART, 0.3 / PART
    for each in long.values():
        assert not grows(lambda given: parsed(section, given), each, size, least), each(60)[:200]
