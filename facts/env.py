"""Environment: what a launcher's shell has, the lines that set it, who runs with another one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from typing_extensions import override

from facts.area import AreaFact, State
from facts.named import Named
from facts.probe import Readings, Section, Unreadable
from facts.setting_lines import CONF, SETTINGS
from facts.shell_prints import PRINTS, Prints, parse_prints
from facts.start_files import (
    PREFIXES,
    Setting,
    StartFile,
    assignments,
    is_of_interest,
    parse_start_file,
)

# Who trains, and where that is at home; `user` stands before it, empty for whoever asks.
_WHO = """
[ -n "$user" ] || user=$(id -un)
entry=$(getent passwd "$user" 2>/dev/null || grep "^$user:" /etc/passwd) ||
  { echo "no user $user"; exit 1; }
home=${entry%:*} home=${home##*:}
[ ! -d "$home" ] || [ -x "$home" ] || { echo "$home is closed to $(id -un)"; exit 1; }
"""
_USER = 'printf "%s\\n%s\\n%s\\n" "$user" "$home" "${entry##*:}"'
# The probe's own shell is what a launcher gets that logs in as the same user. For another one, bash
# is made to believe that sshd started it: it reads ~/.bashrc then, and nobody's login is needed.
# The second line of a value is no variable, whatever it looks like, and what ~/.bashrc printed last
# may have no newline at its end.
_LAUNCHER = r"""
told='echo; if env -0 >/dev/null 2>&1; then env -0 | tr "\n\0" "?\n"; else env; fi'
if [ "$user" = "$(id -un)" ]; then
  all=$(eval "$told") || exit 1
elif [ "$(id -u)" = 0 ]; then
  all=$(cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 \
    su -s /bin/bash "$user" -c "$told" 2>&1) || { echo "$all" | tail -n 1; exit 1; }
else
  echo "only root and $user can tell what a shell of $user has"; exit 1
fi
printf '%s\n' "$all" | awk -v names="$names" '
  BEGIN { wanted = "^(" names ")" }
  /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted'
"""
# Our blocks, and what tells where a shell without a terminal leaves the file. Bytes that are no
# ASCII matter in none of it.
_BASHRC = r"""
[ -e "$home/.bashrc" ] || { echo absent; exit 0; }
awk '
  /^# >>> gpu-node/ { inside = 1 }
  inside || /return|exit|\$-|PS1|tty|-t [01]/ { gsub(/[^ -~\t\r]/, "?"); print NR "\t" $0 }
  /^# <<< gpu-node/ { inside = 0 }
  END { print "lines\t" NR }' "$home/.bashrc"
"""
# Who logs in may have been who trains: nobody writes to that user's files any more.
_LEFT = r"""
me=$(id -un) || exit 1
[ -n "$user" ] && [ "$user" != "$me" ] || exit 0
entry=$(getent passwd "$me" 2>/dev/null || grep "^$me:" /etc/passwd) || exit 1
home=${entry%:*} home=${home##*:}
for f in "$home/.bashrc" "$home/.ssh/authorized_keys"; do
  [ ! -r "$f" ] || ! grep -q '^# >>> gpu-node' "$f" || printf '%s\n' "$f"
done
"""
# Shells at a terminal, servers of screen and tmux, trainers: pid, when it began, what it is, then
# the variables it was started with; containers' processes are in another space of pids. `cat`
# passes over processes that end meanwhile.
_PROCESSES = r"""
uid=$(id -u "$user") || exit 1
environ() { has=$({ tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null); }
# One that is ending has no environment any more, and is there for a moment.
lives() {
  sleep 1
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  case $state in [ZX]* | "") return 1 ;; esac
}
space=$(readlink /proc/self/ns/pid)
trainers=" "
stat -L -c %Y "$home/.bashrc" 2>/dev/null || echo 0
boot=$(awk '$1 == "btime" { print $2 }' /proc/stat)
cat /proc/[0-9]*/stat 2>/dev/null | awk -v boot="$boot" '
  { pid = $1; comm = $0; sub(/^[0-9]+ \(/, "", comm); rest = comm
    sub(/\)[^)]*$/, "", comm); sub(/.*\) /, "", rest); split(rest, field, " ") }
  comm ~ /^(bash|sh|zsh|fish|ksh|tcsh|dash)$/ && field[5] != 0 { tell("shell") }
  (comm ~ /^(screen|SCREEN)$/ && field[5] == 0) || comm ~ /^tmux: server/ { tell("server") }
  comm ~ /^(python|pt_main|deepspeed|accelerate|torchrun)/ { tell("trainer") }
  function tell(kind) {
    sub(/ /, "_", comm)
    told[pid] = pid " " field[2] " " int(boot + field[20] / 100) " " kind " " comm
  }
  # Oldest first: a trainer comes before the workers that it started.
  END {
    for (;;) {
      first = 0
      for (each in told) if (!first || each + 0 < first) first = each + 0
      if (!first) break
      print told[first]; delete told[first]
    }
  }
' | while read -r pid parent began kind comm; do
  case $trainers in *" $parent "*) continue ;; esac # a data loader's worker
  [ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status" 2>/dev/null)" = "$uid" ] || continue
  [ "$(readlink "/proc/$pid/ns/pid")" = "$space" ] || continue
  environ "$pid" || { ! lives "$pid" || echo "$pid $began $kind $comm closed"; continue; }
  [ "$kind" != trainer ] || printf '%s\n' "$has" | grep -q -E '^(LOCAL_)?RANK=' || continue
  [ "$kind" != trainer ] || trainers="$trainers$pid "
  echo "$pid $began $kind $comm open"
  printf '%s\n' "$has" | awk -v names="$names" '
    BEGIN { wanted = "^(" names ")" }
    /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted { gsub(/[^ -~]/, "?"); print "\t" $0 }'
done
"""


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the environment of who trains, and the variables that are named."""
    variables = " ".join(named.variables)
    # The names that matter, as a pattern for awk: prefixes, and the inventory's own in full.
    names = "|".join((*PREFIXES, *(f"{name}=" for name in named.variables)))
    head = f"user={shlex.quote(named.user)}\n{_WHO}"
    asked = f"{head}names={shlex.quote(names)}\n"
    return (
        Section("env.user", head + _USER),
        Section("env.launcher", asked + _LAUNCHER),
        Section("env.bashrc", head + _BASHRC),
        Section("env.settings", f"{asked}echo {shlex.quote(variables)}\n{SETTINGS}"),
        Section("env.conf", head + CONF),
        Section("env.processes", asked + _PROCESSES),
        Section("env.left", f"user={shlex.quote(named.user)}\n{_LEFT}"),
        Section("env.prints", head + PRINTS),
    )


class User(State):
    """Who trains, at home where, with which login shell."""

    name: str
    home: str
    shell: str


class Line(State):
    """A line of a file that is read by its own rules (NCCL's, DeepSpeed's), as it stands there."""

    path: str
    line: int
    text: str


class Process(State):
    """A process that hands its environment on; None where it may not be read.

    `older` tells that it began before ~/.bashrc was last written.
    """

    pid: int
    kind: Literal["shell", "server", "trainer"]
    command: str
    older: bool
    environment: dict[str, str] | None


class EnvState(State):
    """Everything about the environment that a rule asks for."""

    user: User | None
    # What a command has that a launcher starts by ssh.
    launcher: dict[str, str] | None
    bashrc: StartFile | None
    settings: tuple[Setting, ...] | None
    conf: tuple[Line, ...] | None
    processes: tuple[Process, ...] | None
    # Files with our block of an SSH user who trains no more.
    left: tuple[str, ...] | None = ()
    # None as well where the login shell is none that ~/.bashrc is for.
    prints: Prints | None = None


def parse_user(text: str) -> User:
    """Parse name, home and shell, a line each."""
    name, home, shell = [*text.split("\n"), ""][:3]
    if not home.startswith("/"):
        raise Unreadable(f"{name} has no home: {home!r}")
    return User(name=name, home=home, shell=shell or "/bin/sh")


def parse_launcher(text: str) -> dict[str, str]:
    """Parse NAME=VALUE lines."""
    pairs = [line.partition("=") for line in text.split("\n") if "=" in line]
    return {name: value for name, _, value in pairs}


def parse_settings(text: str) -> tuple[Setting, ...]:
    """Parse the inventory's names, then `PATH<tab>NUMBER<tab>line`."""
    first, *rows = text.split("\n")
    named = set(first.split())
    settings = []
    for path, number, line in (row.split("\t", 2) for row in rows if row):
        for name, value in assignments(path, line):
            if name in named or is_of_interest(name):
                setting = {"path": path, "line": int(number), "name": name, "value": value}
                settings.append(Setting.model_validate(setting))
    return tuple(settings)


def parse_conf(text: str) -> tuple[Line, ...]:
    """Parse `PATH<tab>NUMBER<tab>line`; a CR belongs to the line."""
    rows = [row.split("\t", 2) for row in text.split("\n") if row]
    return tuple(Line(path=path, line=int(number), text=line) for path, number, line in rows)


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse ~/.bashrc's time, then `PID BEGAN KIND COMMAND open|closed` with tabbed variables."""
    first, *rows = text.split("\n")
    written = int(first)
    found: list[tuple[list[str], dict[str, str]]] = []
    for row in filter(None, rows):
        if row.startswith("\t"):
            name, _, value = row[1:].partition("=")
            found[-1][1][name] = value
        else:
            found.append((row.split(), {}))
    return tuple(_process(words, variables, written) for words, variables in found)


def _process(words: list[str], variables: dict[str, str], written: int) -> Process:
    pid, began, kind, command, access = words
    return Process.model_validate(
        {"pid": int(pid), "kind": kind, "command": re.sub("_", " ", command)}
        | {"older": int(began) < written, "environment": variables if access == "open" else None}
    )


def parse(readings: Readings) -> EnvState:
    """Return the area's state from the probe's answers."""
    bashrc = readings.take("env.bashrc", parse_start_file)
    settings = readings.take("env.settings", parse_settings)
    return EnvState(
        user=readings.take("env.user", parse_user),
        launcher=readings.take("env.launcher", parse_launcher),
        bashrc=bashrc,
        settings=_told_apart(settings, bashrc),
        conf=readings.take("env.conf", parse_conf),
        processes=readings.take("env.processes", parse_processes),
        left=readings.take("env.left", lambda text: tuple(text.splitlines())),
        prints=readings.take("env.prints", parse_prints),
    )


def _told_apart(
    settings: tuple[Setting, ...] | None, bashrc: StartFile | None
) -> tuple[Setting, ...] | None:
    """Mark what stands in our blocks as ours."""
    if settings is None or bashrc is None:
        return settings
    ours = {line for each in bashrc.blocks for line in range(each.first, each.last + 1)}
    return tuple(
        each.model_copy(update={"ours": each.path == "~/.bashrc" and each.line in ours})
        for each in settings
    )


SECTIONS = sections(Named())


class Env(AreaFact):
    """Returns `EnvState` as a dict: {"launcher": {"NCCL_DEBUG": "INFO"}, "settings": [...]}."""

    sections = SECTIONS
    parse = staticmethod(parse)

    @override
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)
