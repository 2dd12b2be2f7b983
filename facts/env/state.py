"""Environment: what a launcher's shell has, the lines that set it, who runs with another one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from typing_extensions import override

from facts.area import AreaFact, State
from facts.file_systems import SHARED, Place, parse_places
from facts.inherited import PROCESSES, Process, parse_processes
from facts.named import Named
from facts.probe import Readings, Section, Unreadable
from facts.setting_lines import CONF, SETTINGS
from facts.shell_prints import PRINTS, Prints, parse_prints
from facts.start_files import (
    ENV_FILE,
    PREFIXES,
    READ_ENV_FILE,
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
# What lies in a home its owner reads: to root one may be closed that is mounted from elsewhere.
at_home() {
  if [ "$(id -u)" = 0 ] && [ "$user" != "$(id -un)" ]; then
    su -s /bin/sh "$user" -c "$1"
  else
    sh -c "$1"
  fi
}
export home
"""
_OPEN = """
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
  [ ! -d "$home" ] || [ -x "$home" ] || { echo "$home is closed to $user"; exit 1; }
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
_PLACES = """places "$home" "$home/.bashrc"
"""
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
_ENV_FILE = f"[ ! -e {ENV_FILE} ] || head -c 65536 {ENV_FILE}"


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the environment of who trains, and the variables that are named."""
    variables = " ".join(named.variables)
    # The names that matter, as a pattern for awk: prefixes, and the inventory's own in full.
    names = "|".join((*PREFIXES, *(f"{name}=" for name in named.variables)))
    head = f"user={shlex.quote(named.user)}\n{_WHO}"
    given = f"names={shlex.quote(names)}\n"
    settings = f"{given}echo {shlex.quote(variables)}\n{SETTINGS}"
    # A shell of another user may not get our variables.
    places = f'{head}at_home "$gn_places"{shlex.quote(_OPEN + _PLACES)}'
    # Of another user than the SSH user: only root may look into that home, and start that shell.
    apart = named.trains_apart
    return (
        Section("env.user", head + _USER, root=apart),
        Section("env.places", places, shared=SHARED, root=apart),
        Section("env.launcher", head + given + _LAUNCHER, root=apart),
        Section("env.bashrc", head + _at_home(_BASHRC), root=apart),
        Section("env.file", _ENV_FILE),
        Section("env.settings", head + _at_home(settings), root=apart),
        Section("env.conf", head + _at_home(CONF), root=apart),
        Section("env.processes", head + given + PROCESSES, root=apart),
        Section("env.left", f"user={shlex.quote(named.user)}\n{_LEFT}"),
        Section("env.prints", head + PRINTS, root=apart),
    )


def _at_home(script: str) -> str:
    return f"at_home {shlex.quote(_OPEN + script)}"


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


class EnvState(State):
    """Everything about the environment that a rule asks for."""

    user: User | None
    # What a command has that a launcher starts by ssh.
    launcher: dict[str, str] | None
    bashrc: StartFile | None
    # Where the home and ~/.bashrc lie.
    places: dict[str, Place] | None
    # The text of /etc/gpu-node/env.sh; empty where there is none.
    env_file: str | None
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


def parse(readings: Readings) -> EnvState:
    """Return the area's state from the probe's answers."""
    bashrc = readings.take("env.bashrc", parse_start_file)
    # The shell that gathers an answer takes the last newline away.
    env_file = readings.take("env.file", lambda text: f"{text}\n" if text else "")
    settings = readings.take("env.settings", parse_settings)
    return EnvState(
        user=readings.take("env.user", parse_user),
        launcher=readings.take("env.launcher", parse_launcher),
        bashrc=bashrc,
        places=readings.take("env.places", parse_places),
        env_file=env_file,
        settings=_with_env_file(_told_apart(settings, bashrc), bashrc, env_file),
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


def _with_env_file(
    settings: tuple[Setting, ...] | None, bashrc: StartFile | None, env_file: str | None
) -> tuple[Setting, ...] | None:
    """Add what our blocks of ~/.bashrc read from the node's own file, at their lines."""
    if settings is None or bashrc is None or not env_file:
        return settings
    pairs = [pair for line in env_file.splitlines() for pair in assignments(ENV_FILE, line)]
    reading = [
        each.first + number
        for each in bashrc.blocks
        for number, line in enumerate(each.text.splitlines())
        if line == READ_ENV_FILE
    ]
    added = [
        Setting(path="~/.bashrc", line=line, name=name, value=value, ours=True)
        for line in reading
        for name, value in pairs
    ]
    return (*settings, *added)


SECTIONS = sections(Named())


class Env(AreaFact):
    """Returns `EnvState` as a dict: {"launcher": {"NCCL_DEBUG": "INFO"}, "settings": [...]}."""

    sections = SECTIONS
    parse = staticmethod(parse)

    @override
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)
