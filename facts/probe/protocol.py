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
# How much of what sudo says is kept.
_MOST_OF_SUDO = 1000
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
  gn_print "$1"
}
gn_print() {
  gn_coding=raw
  case $gn_text in
    *[!\ -~"$gn_blank"]*) gn_coding=hex
      gn_text=$(printf '%s' "$gn_text" | od -An -v -tx1 | tr -d ' \n') ;;
  esac
  printf '\n%s begin %s %s %s %s\n' "$gn_mark" "$1" "$gn_rc" "$gn_coding" "${#gn_text}"
  printf '%s\n%s end %s\n' "$gn_text" "$gn_mark" "$1"
}
"""

# What needs root is asked by one sudo, because sites log each use: the script comes by stdin, so
# that the log shows `sh` alone. It begins in /: root may not see the user's home. A marker in the
# output shows that sudo ran it. Where sudo refuses, the sections run as the SSH user; where it
# hangs, they do not run.
_BY_SUDO = r"""
gn_by_sudo() {
  if [ "$(id -u)" = 0 ]; then eval "$gn_rooted"; return; fi
  gn_script="$gn_prologue
cd /; gn_user=\$SUDO_USER; export gn_user
$gn_rooted"
  gn_text=$( {
    export gn_script
    gn_limit "$1" 'printf "%s\n" "$gn_script" 2>/dev/null | sudo -n -H sh'
  } 2>&1 </dev/null ); gn_rc=$?
  gn_answer=
  case $gn_text in
    *"$gn_mark begin "*) gn_answer=${gn_text#*"$gn_mark"} gn_text='' gn_rc=0 ;;
  esac
  gn_print sudo
  if [ -n "$gn_answer" ]; then
    printf '\n%s%s\n' "$gn_mark" "$gn_answer"
  else
    case $gn_rc in 124 | 137) ;; *) eval "$gn_rooted" ;; esac
  fi
}
"""
# What the answer calls the output of a sudo that refuses.
SUDO = "sudo"
# The time limit of sudo itself, which may ask a directory about the user.
SUDO_SECONDS = 10


class Unreadable(ValueError):
    """A section whose answer cannot be understood; str() is the reason, fit for a report."""


@dataclass(frozen=True)
class Section:
    """One question to a node: `command` is POSIX sh, `seconds` its time limit.

    `shared` is a variable, and its text, that the command finds in its environment: what several
    sections need is sent once. The whole script is one argument, of which Linux takes 128 KiB.
    `root` marks what only root can read whole: it is asked with sudo where an inventory allows
    that, and finds the SSH user's name in `gn_user` then.
    """

    name: str
    command: str
    seconds: int = DEFAULT_SECONDS
    shared: tuple[str, str] | None = None
    root: bool = False


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
    # How sudo ended; None where it was not asked.
    sudo: Reading | None = None

    @property
    def refusal(self) -> str | None:
        """What sudo said where it refused; None where it worked, or was not asked."""
        if self.sudo is None or (self.sudo.rc == 0 and self.sudo.problem is None):
            return None
        said = self.sudo.problem or self.sudo.text.strip() or f"exit {self.sudo.rc}, no output"
        return said[-_MOST_OF_SUDO:]

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


def render(sections: Iterable[Section], sudo: bool = False) -> str:
    """Return the script that asks all `sections`: POSIX sh, for dash, bash 4.2 and busybox.

    With `sudo` those that need root are asked by one sudo, which must not ask for a password.
    """
    sections = list(sections)
    rooted = [section for section in sections if sudo and section.root]
    own = [section for section in sections if section not in rooted]
    prologue = f"gn_mark='{MARK}'{_PROLOGUE}"
    # The script that sudo runs begins alike.
    first = (
        [f"gn_prologue={shlex.quote(prologue)}", 'eval "$gn_prologue"'] if rooted else [prologue]
    )
    last = [_packed("gn_rooted", rooted), _BY_SUDO, f"gn_by_sudo {_sudo_seconds(rooted)}"]
    script = [*first, _packed("gn_own", own), 'eval "$gn_own"', *(last if rooted else ())]
    return "\n".join([*script, f"printf '\\n{MARK} done\\n'"])


def _packed(name: str, sections: list[Section]) -> str:
    """Return sh that sets a variable to the calls of sections.

    A quote in quotes takes five bytes, and on its way, quoted twice more, 53: one byte stands for
    it.
    """
    text = "\n".join(_calls(sections))
    byte = next((each for each in range(1, 8) if chr(each) not in text), None)
    if byte is None:
        return f"{name}={shlex.quote(text)}"
    short = shlex.quote(text.replace("'", chr(byte)))
    return f"""{name}=$(printf '%s\\n' {short} | tr '\\00{byte}' "'")"""


def _sudo_seconds(sections: Iterable[Section]) -> int:
    """Return the time limit of the sudo that asks what needs root."""
    return SUDO_SECONDS + sum(section.seconds for section in sections if section.root)


def _calls(sections: list[Section]) -> list[str]:
    shared = dict(section.shared for section in sections if section.shared)
    given = [f"{name}={shlex.quote(text)}" for name, text in shared.items()]
    return [*given, *map(_call, sections)]


def _call(section: Section) -> str:
    command = shlex.quote(section.command.strip())
    call = f"gn_section {shlex.quote(section.name)} {section.seconds} {command}"
    return f"( export {section.shared[0]}; {call} )" if section.shared else call


def time_limit(sections: Iterable[Section]) -> int:
    """Return the seconds after which a node that still says nothing is given up."""
    return 10 + SUDO_SECONDS + sum(section.seconds for section in sections)


def read(output: Iterable[str], sections: Iterable[Section]) -> Readings:
    """Return what the lines of a probe's `output` say about each of `sections`."""
    text, sections = "\n".join(output), list(sections)
    seconds = {SUDO: _sudo_seconds(sections), **{each.name: each.seconds for each in sections}}
    lost = Reading(0, "", "the node's answer ended before this section")
    found = {name: lost for name in seconds}
    position = 0
    while begin := _BEGIN.search(text, position):
        name = begin["name"]
        reading, position = _reading(text, begin, seconds.get(name, DEFAULT_SECONDS))
        if name in found:
            found[name] = reading
    sudo = found.pop(SUDO)
    if sudo.rc in TIMED_OUT:
        late = Reading(0, "", f"sudo: {sudo.problem}")
        found |= {each.name: late for each in sections if each.root and found[each.name] is lost}
    return Readings(found, sudo=None if sudo is lost else sudo)


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
