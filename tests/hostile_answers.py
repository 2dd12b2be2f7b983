"""Hostile answers: what a node sends, and what a report says of that node by each way in."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from gpu_node.facts.probe.frame import MARK
from tests.drift import hostile

GOOD = ("a-01", "a-02")
SSH, CLUSTERSHELL, SLURM, FILES = "ssh", "clustershell", "slurm", "answers"
WAYS = (SSH, CLUSTERSHELL, SLURM, FILES)
_ROOT = {"limits.user": "0 root\n0 root"}
BODY = "\n".join(hostile.output(_ROOT))
# It steers a terminal, hides, or is half a character.
CONTROLS = "\x1b]0;owned\x07\x9b2J\x1b[2J\u202e\u200b\r[red]"
_SIZE = re.compile(rf"{MARK} begin shm\.size .*\n.*\n{MARK} end shm\.size")


@dataclass(frozen=True)
class Hostile:
    """What a node sends, NUMBER for the question's, and what the report has of that node.

    `shows` is in its error or in a finding, and `by` has another text for some ways in; where it is
    empty, the answer is read. `then` is what the node does afterwards; it ends with `code`.
    """

    sent: Callable[[str], str | bytes]
    shows: str = ""
    by: Mapping[str, str] = field(default_factory=dict)
    then: Literal["ends", "goes on", "is silent"] = "ends"
    code: int = 0


def stamp(name: str, machine: str = "", hours: float = 0, number: str = "NUMBER") -> str:
    """Return the line that says of which node, question, machine and time an answer is."""
    when = f"{time.time() - hours * 3600:.0f}"
    machine = machine or name
    return f"\n{MARK} script {number} {name} {when} {machine} {machine}-boot\n"


def honest(name: str) -> str:
    """Return what a node answers that has done nothing to others."""
    return stamp(name) + BODY


def _sized(head: str, text: str = "31") -> Callable[[str], str]:
    """Return an answer whose section about the size of /dev/shm has this head, and this text."""
    section = f"{MARK} begin shm.size {head}\n{text}\n{MARK} end shm.size"
    return lambda name: stamp(name) + _SIZE.sub(section, BODY)


def _lying(change: Callable[[str], str], shows: str = "") -> Hostile:
    """Answer as a healthy node does, with each section's text changed."""

    @cache
    def body() -> str:
        lies = {name: change(texts[0]) for name, texts in hostile.answers().items()}
        return "\n".join(hostile.output(lies))

    return Hostile(lambda name: stamp(name) + body(), shows)


def _planted(text: str) -> str:
    """Return the body of an answer with a text of a user's in its first section."""
    begin = re.search(r"^(@@gpu-node begin \S+ 0 raw )(\d+)$", BODY, re.MULTILINE)
    assert begin
    whole = f"{begin[1]}{int(begin[2]) + len(text)}\n{text}"
    return BODY[: begin.start()] + whole + BODY[begin.end() + 1 :]


_CUT = BODY[: len(BODY) // 2]
_MARKS = f"{stamp(GOOD[0], number='0' * 16)}{MARK} unnamed\n{MARK} job 7\n{MARK} done\n"
_NO_END, _CUT_OFF = "ended before this section", "it was cut off before its end"
_ENDED_FIRST, _NO_ANSWER = "the login shell ended first", "found no answer to a script of gpu-node"
_UNNAMED = "its answer does not name the node"
_NO_STAMP = {CLUSTERSHELL: _UNNAMED, SLURM: _UNNAMED, FILES: _NO_ANSWER}
_ANOTHERS = dict.fromkeys((CLUSTERSHELL, SLURM, FILES), f"it is the answer of {GOOD[0]}")
_EARLIER = "it is the answer to an earlier question"
_OTHER_QUESTION = {
    CLUSTERSHELL: _EARLIER,
    SLURM: _EARLIER,
    FILES: "it answers another inventory or version of gpu-node",
}

_PASSWORD = "sudo: a password is required"
_LONG = 1024 * 1024 + 1
_TOO_LONG, _ALL = "cut: it printed more than a section may", "more than a report takes"

# What the stamp, the marks and the end of an answer may be.
FRAMES = {
    "nothing": Hostile(lambda _: "\n", f"{_ENDED_FIRST}, and printed nothing", {FILES: _NO_ANSWER}),
    "a-greeting": Hostile(
        lambda _: f"Welcome{CONTROLS}\n",
        f"{_ENDED_FIRST}: Welcome",
        {SLURM: "Slurm started no job on it: no reason", FILES: _NO_ANSWER},
        code=1,
    ),
    "a-password": Hostile(
        lambda _: f"{_PASSWORD}\nsudo-rs: interactive authentication is required\n{_PASSWORD}\n",
        _PASSWORD,
        {SLURM: "Slurm started no job on it: no reason", FILES: _NO_ANSWER},
        code=1,
    ),
    "no-script": Hostile(
        lambda _: f"{MARK} script is not whole\n0\n", "add </dev/null", {FILES: _NO_ANSWER}
    ),
    "no-utf-8": Hostile(lambda name: b"\xff\xfe\0\n" + honest(name).encode()),
    "no-stamp": Hostile(lambda _: BODY, by=_NO_STAMP),
    "only-done": Hostile(lambda _: f"{MARK} done\n", _NO_END, _NO_STAMP),
    "anothers": Hostile(lambda _: honest(GOOD[0]), by=_ANOTHERS),
    "two": Hostile(
        lambda name: honest(name) + honest(GOOD[0]), by={FILES: "it holds more than one answer"}
    ),
    "twice": Hostile(lambda name: honest(name) * 2, by={FILES: "it holds more than one answer"}),
    "two-begun-by-another": Hostile(
        lambda name: honest(GOOD[0]) + honest(name),
        by={**_ANOTHERS, FILES: "it holds more than one answer"},
    ),
    "old": Hostile(lambda name: stamp(name, hours=25) + BODY, by={FILES: "it is 25 hours old"}),
    "ahead": Hostile(
        lambda name: stamp(name, hours=-30) + BODY, by={FILES: "it is 30 hours ahead"}
    ),
    "other-question": Hostile(lambda name: stamp(name, number="0" * 16) + BODY, by=_OTHER_QUESTION),
    "a-job": Hostile(lambda name: honest(name) + f"\n{MARK} job 1\n"),
    "an-unnamed-job": Hostile(
        lambda name: f"{MARK} unnamed\n{honest(name)}",
        by={SLURM: "found a job without SLURMD_NODENAME"},
    ),
    "cut": Hostile(lambda name: stamp(name) + _CUT, _NO_END, {FILES: _CUT_OFF}),
    "cut-with-an-error": Hostile(
        lambda name: stamp(name) + _CUT,
        "the probe was cut off before its end; ask again",
        {FILES: _CUT_OFF},
        code=1,
    ),
    "no-end": Hostile(lambda name: honest(name).replace(f"{MARK} done", ""), by={FILES: _CUT_OFF}),
    "a-longer-end": Hostile(
        lambda name: honest(name).replace(f"{MARK} done", f"{MARK} doneish"), by={FILES: _CUT_OFF}
    ),
    # The machine of a good node, in an answer that is refused, and so says nothing of that node.
    "old-of-its-machine": Hostile(
        lambda name: stamp(name, GOOD[0], 25) + BODY, by={FILES: "it is 25 hours old"}
    ),
    "other-question-of-its-machine": Hostile(
        lambda name: stamp(name, GOOD[0], number="0" * 16) + BODY, by=_OTHER_QUESTION
    ),
    "cut-of-its-machine": Hostile(
        lambda name: stamp(name, GOOD[0]) + _CUT, _NO_END, {FILES: _CUT_OFF}
    ),
    "a-stamp-of-its-machine": Hostile(
        lambda name: stamp(name, GOOD[0]), _NO_END, {FILES: _CUT_OFF}
    ),
    # A user can write a stamp and an end into a file that a section prints: they are text.
    "marks-in-a-section": Hostile(lambda name: stamp(name) + _planted(_MARKS)),
    "marks-in-a-section-without-a-stamp": Hostile(lambda _: _planted(_MARKS), by=_NO_STAMP),
    "cut-after-marks-in-a-section": Hostile(
        lambda name: stamp(name) + _planted(_MARKS).partition(f"{MARK} done\n")[0] + MARK + " done",
        _NO_END,
        {FILES: _CUT_OFF},
    ),
}
# What one section may be: it alone is unreadable.
SECTIONS = {
    "a-long-code": Hostile(_sized(f"{'9' * 5000} raw 2"), _NO_END),
    "a-long-length": Hostile(_sized(f"0 raw {'9' * 5000}"), _NO_END),
    "other-digits": Hostile(_sized("\u0660 raw \u0662"), _NO_END),
    "a-wrong-length": Hostile(_sized("0 raw 9"), "cut short: its end is missing after 9 bytes"),
    "no-hex": Hostile(_sized("0 hex 2", "3x"), "its hex coding is broken: '3x'"),
    "a-time-limit": Hostile(_sized("124 raw 2"), "no answer within "),
    "an-error": Hostile(_sized(f"1 raw {len(CONTROLS)}", CONTROLS), "exit 1: "),
    "too-long": Hostile(_sized(f"0 raw {_LONG}", "1" * _LONG), _TOO_LONG),
    "too-long-in-hex": Hostile(_sized(f"0 hex {2 * _LONG}", "31" * _LONG), _TOO_LONG),
    "a-long-number": Hostile(_sized("0 raw 5000", "9" * 5000), "not understood: "),
}


def _is_deep(text: str) -> str:
    return "[" * 100_000 if text.startswith("{") else text


# What all of them may be.
LIES = {
    "deep-json": _lying(_is_deep, "JSON nested more than 12 deep"),
    "controls": _lying(lambda text: re.sub("[ \t]", CONTROLS, text)),
    "old-timestamps": _lying(lambda text: re.sub(r"\d+", "-99999999999999", text)),
    "large-numbers": _lying(lambda text: re.sub(r"\d+", "9" * 5000, text)[:50_000]),
    "patterns": _lying(lambda text: re.sub("[A-Za-z]+", "((((.+)+)+)+)+Q", text)),
    "links": _lying(lambda text: re.sub(r"/\S*", "/etc/shadow", text)),
    # Below the limits of bytes and lines.
    "many": _lying(lambda text: f"{text}\n" * min(400, 40_000 // (len(text) + 1))),
}
# All of them together are too much.
FULL = {
    "many-bytes": _lying(lambda text: "x" * 50_000, _ALL),
    "many-short-lines": _lying(lambda text: "7 x\n" * 1000, _ALL),
}
_GARBAGE = random.Random(1).randbytes(1000)  # noqa: S311
_BEGIN = f"\n{MARK} begin shm.mount 0 raw 2000000".encode()
# What has no end, or seems to have none.
ENDLESS = {
    "endless": Hostile(lambda _: b"x" * 32768, "more than 16 MiB", then="goes on"),
    "endless-lines": Hostile(
        lambda _: b"x\n" * 16384, "500000 lines", {FILES: "more than 16 MiB"}, then="goes on"
    ),
    "silent": Hostile(
        lambda name: stamp(name), "it sent nothing for 30 s", {FILES: "found no file"}, "is silent"
    ),
    "many-lines": Hostile(lambda name: stamp(name) + "\n" * 15_000_000, "500000 lines"),
    "many-marks": Hostile(
        lambda name: stamp(name).encode() + _BEGIN * 100_000, by={FILES: _CUT_OFF}
    ),
    "garbage": Hostile(lambda _: (_GARBAGE + _BEGIN) * 3000, _NO_END, _NO_STAMP),
}
