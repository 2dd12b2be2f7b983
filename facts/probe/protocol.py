"""The probe: many sections in one POSIX sh script, and the parser of its answer.

Each section runs in a separate shell, with a time limit, without stdin, in the C locale. Its output
is captured and sent after its exit code and its length, so that no output of a section can be taken
for a marker, and a cut answer is detected. Output that is not plain ASCII is sent as hex: pyinfra's
reader stops at the first byte that is not UTF-8.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, overload

from gpu_node.facts.probe import bounds, frame
from gpu_node.facts.probe.frame import (
    BEGIN,
    BY_SUDO,
    DEFAULT_BYTES,
    END,
    MOST_OF_ALL_BYTES,
    PROLOGUE,
    TOO_LONG,
)
from gpu_node.facts.probe.lines import decoded, lines_of
from gpu_node.facts.probe.shell import assigned

MARK = frame.MARK
DEFAULT_SECONDS = 10
# The characters of sudo's output that are kept.
_MOST_OF_SUDO = 1000
# Of the calls of light sections, in bytes: Linux limits an argument to 128 KiB.
_MOST_OF_LIGHT = 100_000
_CUT = "cut: it printed more than a section may, or its shell was killed; the rest was not sent"
# The limit for the lines of all sections of a node, without lists of files. An honest node with
# many environments needs a tenth of it; a line of 20 bytes becomes objects of 2 KiB here.
_MOST_OF_ALL_LINES = 40_000
_TOO_MUCH = "too long: all output of the node is more than a report takes; this was not read"
# The exit codes of a command killed by `timeout`: 124 from timeout itself, 137 from SIGKILL.
TIMED_OUT = frozenset({124, 137})

_BEGIN = re.compile(
    rf"^{MARK} begin (?P<name>\S+) (?P<rc>\d{{1,9}}) (?P<coding>raw|hex) (?P<length>\d{{1,12}})$",
    re.MULTILINE | re.ASCII,
)

# The name in the answer of sudo's output if it refuses.
SUDO = "sudo"
_WITHOUT_PASSWORD = {"gn_sudo": "sudo -n -H sh", "gn_fed": ""}
# The time limit of sudo itself, which may ask a directory about the user.
SUDO_SECONDS = 10


class Unreadable(ValueError):
    """The answer of a section cannot be parsed; str() is the reason, in a form for a report."""


@dataclass(frozen=True)
class Section:
    """One question to a node: `command` is POSIX sh, `seconds` and `bytes` are its limits.

    `shared` are variables with values, in the command's environment: a text that several sections
    need is sent once. A command is one argument of at most 128 KiB. A section with `root` runs with
    sudo where an inventory allows it; then `gn_user` is the SSH user. `place` puts it before or
    after all others, for a clock that is read at both ends of a probe. `light` sections share one
    shell and one time limit: such a section reads files and knows a bound for what it prints, and
    leaves no process behind. If that shell is killed, the section runs again with its own limit.
    `about` names what a complete answer is about, where the answer itself does not show it.
    """

    name: str
    command: str
    seconds: int = DEFAULT_SECONDS
    shared: tuple[tuple[str, str], ...] = ()
    root: bool = False
    bytes: int = DEFAULT_BYTES
    place: Literal["first", "between", "last"] = "between"
    light: bool = False
    about: tuple[str, ...] = ()

    @cached_property
    def as_light(self) -> str:
        """The section as the function that `gn_light` calls."""
        name = shlex.quote(self.name)
        return f"gn_light_section() {{\n{self.command.strip()}\n}}\ngn_light {name}"

    @cached_property
    def light_bytes(self) -> int:
        """What its call takes of an argument."""
        return len(self.as_light.encode()) + sum(len(text) for _, text in self.shared)


@dataclass(frozen=True)
class Times:
    """When this machine sent a probe and had the answer: seconds since 1970 by its clock."""

    asked: float
    answered: float


@dataclass(frozen=True)
class Reading:
    """The answer to one section: its exit code and output, or the problem with it."""

    rc: int
    text: str
    problem: str | None = None

    def require(self) -> str:
        """Return the output of a section that ran to its end with exit code 0."""
        if self.problem is not None:
            raise Unreadable(self.problem)
        if self.rc != 0:
            lines = lines_of(self.text.strip())
            raise Unreadable(f"exit {self.rc}: {lines[-1] if lines else 'no output'}")
        return self.text


@dataclass(frozen=True)
class Unread:
    """A section that could not be read, and why."""

    section: str
    reason: str


T = TypeVar("T")


@dataclass(frozen=True)
class Part(Generic[T]):
    """What is known of an answer, and why the rest is not; empty: all of it is known."""

    value: T
    why: str = ""


@dataclass
class Readings:
    """The answers of a node by section, and the sections that could not be read."""

    sections: dict[str, Reading]
    unread: list[Unread] = field(default_factory=list)
    # The result of sudo; None if it was not used.
    sudo: Reading | None = None
    # None if the caller did not record them.
    times: Times | None = None
    # What the answers are about, by section, as asked.
    about: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def refusal(self) -> str | None:
        """The output of sudo if it refused; None if it worked or was not used."""
        if self.sudo is None or (self.sudo.rc == 0 and self.sudo.problem is None):
            return None
        output = self.sudo.problem or self.sudo.text.strip() or f"exit {self.sudo.rc}, no output"
        return output[-_MOST_OF_SUDO:]

    @overload
    def take(self, section: str, parse: Callable[[str], Part[T]]) -> T | None: ...
    @overload
    def take(self, section: str, parse: Callable[[str], T]) -> T | None: ...
    def take(self, section: str, parse: Callable[[str], Any]) -> Any:
        """Parse one section's output; None, and an entry in `unread`, if that fails."""
        reading = self.sections[section]
        try:
            parsed = parse(reading.require())
            part = parsed if isinstance(parsed, Part) else Part(parsed)
            bounds.require(part.value)
            if part.why:
                self.unread.append(Unread(section, bounds.short(part.why)))
            return part.value
        except Unreadable as error:
            self.unread.append(Unread(section, bounds.short(str(error))))
        except Exception as error:  # of any class: the output of a node caused it
            words = bounds.in_words(error)
            reason = f"not understood: {words} in {reading.text.strip()[:80]!r}"
            self.unread.append(Unread(section, reason))
        return None


def render(
    sections: Iterable[Section], sudo: bool = False, by: Mapping[str, str] | None = None
) -> str:
    """Return the script for `sections`: POSIX sh, for dash, bash 4.2 and busybox.

    With `sudo`, one sudo runs the sections that need root; `by` has variables of by_sudo.sh where
    it asks for a password.
    """
    sections = list(sections)
    rooted = [section for section in sections if sudo and section.root]
    others = [each for each in sections if each not in rooted]
    own = [other for other in others if other.place != "last" and not _is_list(other)]
    own.sort(key=lambda each: each.place != "first")
    # Lists of files use what the other sections leave of the answer.
    lists = [other for other in others if other.place != "last" and _is_list(other)]
    ends = [other for other in others if other.place == "last"]
    prologue = assigned(gn_mark=MARK) + PROLOGUE
    # The script that sudo runs begins in the same way.
    first = (
        [f"gn_prologue={shlex.quote(prologue)}", 'eval "$gn_prologue"'] if rooted else [prologue]
    )
    started = assigned(**{**_WITHOUT_PASSWORD, **(by or {})})
    by_sudo = f"{started}{BY_SUDO}\ngn_by_sudo {_sudo_seconds(rooted)}"
    last = [_packed("gn_rooted", rooted), by_sudo]
    script = [*first, *_calls(own), *(last if rooted else ())]
    return "\n".join([BEGIN, *script, *_calls(lists), *_calls(ends), END])


def _is_list(section: Section) -> bool:
    return section.bytes > DEFAULT_BYTES


def _packed(name: str, sections: list[Section]) -> str:
    """Return sh that sets a variable to the calls of sections.

    A quote inside quotes takes five bytes, and 53 after two more levels: one control byte stands
    for it.
    """
    text = "\n".join(_calls(sections))
    byte = next((each for each in range(1, 8) if chr(each) not in text), None)
    if byte is None:
        return f"{name}={shlex.quote(text)}"
    short = shlex.quote(text.replace("'", chr(byte)))
    return f"""{name}=$(printf '%s\\n' {short} | tr '\\00{byte}' "'")"""


def _sudo_seconds(sections: Iterable[Section]) -> int:
    """Return the time limit of the sudo that runs the sections with `root`."""
    return SUDO_SECONDS + _seconds(section for section in sections if section.root)


def _seconds(sections: Iterable[Section]) -> int:
    """Return the seconds that sections take at most: a light one may run twice."""
    return sum(section.seconds * (2 if section.light else 1) for section in sections)


def _calls(sections: list[Section]) -> list[str]:
    """Return sh that runs sections: heavy ones that are to be first, light ones, the others."""
    shared = dict(pair for section in sections for pair in section.shared)
    given = [f"{name}={shlex.quote(text)}" for name, text in shared.items()]
    light = [each for each in sections if each.light]
    heavy = [each for each in sections if not each.light]
    first = [each for each in heavy if each.place == "first"]
    rest = [each for each in heavy if each.place != "first"]
    if len(light) < 2:
        return [*given, *map(_call, sections)]
    return [*given, *map(_call, first), *map(_together, _parted(light)), *map(_call, rest)]


def _parted(light: list[Section]) -> Iterator[list[Section]]:
    """Yield light sections in parts whose calls are one argument of sh.

    Those with long time limits are apart: they would give all others the same limit.
    """
    part: list[Section] = []
    size = 0
    for each in sorted(light, key=_is_long):
        if part and (
            size + each.light_bytes > _MOST_OF_LIGHT or _is_long(part[-1]) != _is_long(each)
        ):
            yield part
            part, size = [], 0
        part.append(each)
        size += each.light_bytes
    if part:
        yield part


def _is_long(section: Section) -> bool:
    return section.seconds > 2 * DEFAULT_SECONDS


def _together(sections: list[Section]) -> str:
    """Return the call of light sections; their shell inherits the shared variables.

    The programs that it starts do not: a section prints its variables.
    """
    names = dict.fromkeys(name for section in sections for name, _ in section.shared)
    kept = [f"gn_kept=${name}; unset {name}; {name}=$gn_kept" for name in names]
    calls = shlex.quote("\n".join([*kept, *(each.as_light for each in sections)]))
    words = " ".join(shlex.quote(f"{section.seconds}:{section.name}") for section in sections)
    call = f"gn_lights {max(section.seconds for section in sections)} {calls} {words}"
    # Not in a subshell: what is left of the answer is counted in variables of sh.
    return "\n".join([f"export {' '.join(names)}", call, *kept]) if names else call


def _call(section: Section) -> str:
    command = shlex.quote(section.command.strip())
    call = f"gn_section {shlex.quote(section.name)} {section.seconds} {command}"
    exports = " ".join(name for name, _ in section.shared)
    if section.bytes != DEFAULT_BYTES or exports:
        call += f" {section.bytes}"
    return f"{call} {shlex.quote(exports)}" if exports else call


def time_limit(sections: Iterable[Section]) -> int:
    """Return the seconds after which a node without any output is given up."""
    return 10 + SUDO_SECONDS + _seconds(sections)


def read(
    output: Iterable[str], sections: Iterable[Section], times: Times | None = None
) -> Readings:
    """Return the readings of `sections` from the lines of a probe's `output`."""
    text, sections = "\n".join(output), list(sections)
    limits = {section.name: (section.seconds, section.bytes) for section in sections}
    limits[SUDO] = _sudo_seconds(sections), DEFAULT_BYTES
    lost = Reading(0, "", "the node's answer ended before this section")
    readings = dict.fromkeys(limits, lost)
    position = size = lines = 0
    while begin := _BEGIN.search(text, position):
        name = begin["name"]
        reading, position = _reading(text, begin, *limits.get(name, limits[SUDO]))
        if limits.get(name, limits[SUDO])[1] == DEFAULT_BYTES:
            # It is left out alone: a user who fills a section would hide the next ones.
            more = size + len(reading.text), lines + reading.text.count("\n")
            if more[0] > MOST_OF_ALL_BYTES or more[1] > _MOST_OF_ALL_LINES:
                reading = Reading(reading.rc, "", _TOO_MUCH)
            else:
                size, lines = more
        if name in readings:
            readings[name] = reading
    sudo = readings.pop(SUDO)
    if sudo.rc in TIMED_OUT:
        late = Reading(0, "", f"sudo: {sudo.problem}")
        readings |= {
            section.name: late
            for section in sections
            if section.root and readings[section.name] is lost
        }
    about = {section.name: section.about for section in sections if section.about}
    return Readings(readings, sudo=None if sudo is lost else sudo, times=times, about=about)


def _reading(text: str, begin: re.Match[str], seconds: int, most: int) -> tuple[Reading, int]:
    """Return the section that starts at `begin`, and the position after it."""
    start, length, rc = begin.end() + 1, int(begin["length"]), int(begin["rc"])
    stop = start + length
    if not text.startswith(f"\n{MARK} end {begin['name']}", stop):
        # If the rest of the answer is too short for a section, nothing follows it.
        resume = len(text) if stop + len(f"\n{MARK} end {begin['name']}") > len(text) else start
        # There may be any number of markers: the rest after each is not copied.
        there = max(0, min(length, len(text) - start))
        return Reading(rc, "", f"cut short: its end is missing after {there} bytes"), resume
    body = text[start:stop]
    if rc == TOO_LONG or length > most * (2 if begin["coding"] == "hex" else 1):
        return Reading(rc, "", _CUT), stop
    if rc in TIMED_OUT:
        return Reading(rc, body, f"no answer within {seconds} s"), stop
    if begin["coding"] == "hex":
        return _from_hex(rc, body), stop
    return Reading(rc, body), stop


def _from_hex(rc: int, body: str) -> Reading:
    try:
        return Reading(rc, decoded(bytes.fromhex(body)))
    except ValueError:
        return Reading(rc, "", f"its hex coding is broken: {body[:40]!r}")
