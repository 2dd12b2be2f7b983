"""The probe: many sections in one POSIX sh script, and the reading of its answer.

Each section runs in a shell of its own, under a time limit, with no stdin and in the C locale. Its
output is captured and sent with its exit code and its length in front, so that nothing a section
prints can be taken for a marker, and a cut answer is seen to be cut. Output that is not plain
ASCII text travels as hex: pyinfra's reader stops at the first byte that is not UTF-8.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

MARK = "@@gpu-node"
DEFAULT_SECONDS = 10
# What a shell reports for a command killed by `timeout`: 124 by its own word, 137 by SIGKILL.
TIMED_OUT = frozenset({124, 137})

_BEGIN = re.compile(
    rf"^{MARK} begin (?P<name>\S+) (?P<rc>\d+) (?P<coding>raw|hex) (?P<length>\d+)$", re.MULTILINE
)

# `timeout` is in coreutils and busybox; where there is none a background shell keeps the time.
# A section's output is gathered by the shell that is under the limit: a child that lives on in the
# background holds that shell's pipe open, and not ours.
_PROLOGUE = r"""
LC_ALL=C; export LC_ALL
unset CDPATH GREP_OPTIONS
gn_preload=${LD_PRELOAD-}; export gn_preload; unset LD_PRELOAD
gn_run='gn_text=$(eval "$1" 2>&1); gn_rc=$?; printf "%s" "$gn_text"; exit "$gn_rc"'
gn_blank=$(printf '\t\nx'); gn_blank=${gn_blank%x}
gn_timeout=no
! timeout --version >/dev/null 2>&1 || gn_timeout=yes
gn_limit() {
  if [ "$gn_timeout" = yes ]; then
    timeout -s KILL "$1" sh -c "$gn_run" sh "$2"
  else
    gn_apart=; gn_group=
    ! command -v setsid >/dev/null 2>&1 || { gn_apart=setsid; gn_group=-; }
    $gn_apart sh -c "$gn_run" sh "$2" & gn_pid=$!
    ( sleep "$1"; kill -9 "$gn_group$gn_pid" ) >/dev/null 2>&1 & gn_dog=$!
    wait "$gn_pid"; gn_code=$?
    kill "$gn_dog" 2>/dev/null
    return "$gn_code"
  fi
}
gn_section() {
  gn_text=$( { gn_limit "$2" "$3"; } 2>&1 </dev/null ); gn_rc=$?
  gn_coding=raw
  case $gn_text in
    *[!\ -~"$gn_blank"]*) gn_coding=hex
      gn_text=$(printf '%s' "$gn_text" | od -An -v -tx1 | tr -d ' \n') ;;
  esac
  printf '\n%s begin %s %s %s %s\n' "$gn_mark" "$1" "$gn_rc" "$gn_coding" "${#gn_text}"
  printf '%s\n%s end %s\n' "$gn_text" "$gn_mark" "$1"
}
"""


class Unreadable(ValueError):
    """A section whose answer cannot be understood; str() is the reason, fit for a report."""


@dataclass(frozen=True)
class Section:
    """One question to a node: `command` is POSIX sh, `seconds` its time limit.

    `shared` is a variable, and its text, that the command finds in its environment: what several
    sections need is sent once. The whole script is one argument, of which Linux takes 128 KiB.
    """

    name: str
    command: str
    seconds: int = DEFAULT_SECONDS
    shared: tuple[str, str] | None = None


@dataclass(frozen=True)
class Reading:
    """What a node answered to one section: its exit code and output, or the problem with it."""

    rc: int
    text: str
    problem: str | None = None

    def require(self) -> str:
        """Return the output of a section that ran to its end with exit code 0."""
        if self.problem is not None:
            raise Unreadable(self.problem)
        if self.rc != 0:
            said = self.text.strip().splitlines()
            raise Unreadable(f"exit {self.rc}: {said[-1] if said else 'no output'}")
        return self.text


@dataclass(frozen=True)
class Unread:
    """A section that could not be read, and why."""

    section: str
    reason: str


T = TypeVar("T")


@dataclass
class Readings:
    """The answers of a node by section, collecting what could not be read on the way."""

    sections: dict[str, Reading]
    unread: list[Unread] = field(default_factory=list)

    def take(self, section: str, parse: Callable[[str], T]) -> T | None:
        """Parse one section's output; None, and an entry in `unread`, when that is impossible."""
        reading = self.sections[section]
        try:
            return parse(reading.require())
        except Unreadable as error:
            self.unread.append(Unread(section, str(error)))
        except (ValueError, IndexError, KeyError) as error:
            reason = f"not understood: {error} in {reading.text.strip()[:80]!r}"
            self.unread.append(Unread(section, reason))
        return None


def render(sections: Iterable[Section]) -> str:
    """Return the script that asks all `sections`: POSIX sh, for dash, bash 4.2 and busybox."""
    sections = list(sections)
    shared = dict(section.shared for section in sections if section.shared)
    given = [f"{name}={shlex.quote(text)}" for name, text in shared.items()]
    calls = [_call(section) for section in sections]
    return "\n".join(
        [f"gn_mark='{MARK}'{_PROLOGUE}", *given, *calls, f"printf '\\n{MARK} done\\n'"],
    )


def _call(section: Section) -> str:
    command = shlex.quote(section.command.strip())
    call = f"gn_section {shlex.quote(section.name)} {section.seconds} {command}"
    return f"( export {section.shared[0]}; {call} )" if section.shared else call


def time_limit(sections: Iterable[Section]) -> int:
    """Return the seconds after which a node that still says nothing is given up."""
    return 10 + sum(section.seconds for section in sections)


def read(output: Iterable[str], sections: Iterable[Section]) -> Readings:
    """Return what the lines of a probe's `output` say about each of `sections`."""
    text = "\n".join(output)
    seconds = {section.name: section.seconds for section in sections}
    lost = Reading(0, "", "the node's answer ended before this section")
    found = {name: lost for name in seconds}
    position = 0
    while begin := _BEGIN.search(text, position):
        name = begin["name"]
        reading, position = _reading(text, begin, seconds.get(name, DEFAULT_SECONDS))
        if name in found:
            found[name] = reading
    return Readings(found)


def _reading(text: str, begin: re.Match[str], seconds: int) -> tuple[Reading, int]:
    """Return the section that starts at `begin`, and the position after it."""
    start, length, rc = begin.end() + 1, int(begin["length"]), int(begin["rc"])
    body, stop = text[start : start + length], start + length
    if not text.startswith(f"\n{MARK} end {begin['name']}", stop):
        # Nothing after a section that the whole rest of the answer is too short for.
        resume = len(text) if stop + len(f"\n{MARK} end {begin['name']}") > len(text) else start
        return Reading(rc, body, f"cut short: its end is missing after {len(body)} bytes"), resume
    if rc in TIMED_OUT:
        return Reading(rc, body, f"no answer within {seconds} s"), stop
    if begin["coding"] == "hex":
        return _from_hex(rc, body), stop
    return Reading(rc, body), stop


def _from_hex(rc: int, body: str) -> Reading:
    try:
        data = bytes.fromhex(body)
        return Reading(rc, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        around = data[max(0, error.start - 20) : error.start + 20]
        return Reading(rc, "", f"not UTF-8 at byte {error.start}: {around!r}")
    except ValueError:
        return Reading(rc, "", f"its hex coding is broken: {body[:40]!r}")
