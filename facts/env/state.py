"""Environment: what a launcher's shell has, the lines that set it, processes with another one."""

import shlex
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from gpu_node.facts.env import proxies as proxy_settings
from gpu_node.facts.env.inherited import PROCESSES, Process, parse_processes
from gpu_node.facts.env.start_files import (
    BASHRC,
    CONF,
    ENV_FILE,
    LINES,
    MOST_OF_A_LINE,
    MOST_OF_OURS,
    PREFIXES,
    READ_ENV_FILE,
    READ_FILES,
    SETTINGS,
    Setting,
    StartFile,
    assignments,
    is_of_interest,
    parse_start_file,
)
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, State
from gpu_node.facts.probe.file_systems import SHARED, Place, parse_places
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word, lines, parted
from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.redaction import SHARED as HIDE
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.training_user import SHARED as AS_USER

_WHO = shell("env/training_user")
_OPEN = shell("env/open_home")
_USER = 'printf "%s\\n%s\\n%s\\n" "$user" "$home" "${entry##*:}"'
_PLACES = (
    shell("env/not_writable")
    + shell("probe/closed_at")
    + shell("env/closed")
    + """places "$home" "$home/.bashrc"
"""
)
_MISSING = "missing"
_OF_SESSION = f"{_MISSING} "
_ENV_FILE = f"[ ! -e {ENV_FILE} ] || head -c 65536 {ENV_FILE}"


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the training user's environment and the named variables."""
    variables = " ".join(request.variables)
    # The relevant names, as a pattern for awk: prefixes, and the inventory's variables in full.
    names = "|".join((*PREFIXES, *(f"{name}=" for name in request.variables)))
    head = assigned(user=request.user) + _WHO
    given = assigned(names=names)
    settings = f"{given}echo {shlex.quote(variables)}\n{SETTINGS}"
    # A shell of another user may not receive our variables.
    asked = f"set -- {shlex.join(request.environments)}\n"
    if request.trains_apart:
        # Without root it is the SSH user who looks.
        asked += f'[ "$(id -un)" = {shlex.quote(request.user)} ] || set --\n'
    places = f'{head}at_home "$gn_places"{shlex.quote(_OPEN + asked + _PLACES)}'
    # For another user than the SSH user: only root may read that home and start that shell.
    apart = request.trains_apart
    return (
        Section("env.user", head + _USER, shared=(AS_USER,), root=apart, light=True),
        Section("env.places", places, shared=(SHARED, AS_USER), root=apart, light=True),
        Section(
            "env.launcher",
            head + given + shell("env/launcher", hidden=HIDDEN, files=" ".join(READ_FILES)),
            shared=(HIDE, AS_USER),
            root=apart,
            # Another user's start files run in it.
            light=not apart,
        ),
        _at_home("env.bashrc", request, given + BASHRC),
        Section("env.file", _ENV_FILE, light=True),
        _at_home("env.settings", request, settings),
        _at_home("env.conf", request, given + CONF),
        Section(
            "env.processes",
            head + given + PROCESSES,
            shared=(HIDE, AS_USER, PROCESS),
            root=apart,
        ),
        Section("env.left", assigned(user=request.user) + shell("env/left"), light=True),
        Section(
            "env.proxies",
            head + proxy_settings.ASK,
            shared=(proxy_settings.SHARED, AS_USER),
            root=True,
            light=True,
        ),
        Section("env.prints", head + shell("env/prints"), shared=(HIDE, AS_USER), root=apart),
    )


# A shell of another user may not receive our variables; these contain no quote.
_HANDED = """at_home "gn_hide='$gn_hide'
gn_lines='$gn_lines'
\""""


def _at_home(name: str, request: ProbeRequest, script: str) -> Section:
    """Return a section about files in a home; they are read as the owner of the home."""
    command = f"{assigned(user=request.user)}{_WHO}{_HANDED}{shlex.quote(_OPEN + script)}"
    shared = (HIDE, LINES, AS_USER)
    return Section(name, command, shared=shared, root=request.trains_apart, light=True)


# At most this many of our lines that read our file add its content: one is enough.
_MOST_READING = 8


class User(State):
    """The training user, with home and login shell."""

    name: str
    home: str
    shell: str


class NotWritable(State):
    """A folder that the training user cannot write to, or that does not exist."""

    path: str
    problem: Literal["missing", "closed"]


_FOLDER = Columns(NotWritable, "path problem", path=checked.path)


class Closed(State):
    """What the training user cannot enter, start or read of an environment: a place, its owner."""

    environment: str
    place: str
    mode: Annotated[str, Field(pattern="^[0-7]{1,4}$")]
    owner: str


class Line(State):
    """A line, unchanged, of a file that is read by its own rules (NCCL's, DeepSpeed's)."""

    path: str
    line: int
    text: str


# A CR belongs to the line.
parse_conf = Columns(Line, "path line text...")


class Prints(State):
    """How many bytes a shell itself prints (65536: that many or more), and the first line."""

    bytes: int
    first: str


class EnvState(State):
    """Everything about the environment that rules use."""

    user: User | None
    # The variables of a command that a launcher starts by ssh.
    launcher: dict[str, str] | None
    bashrc: StartFile | None
    # The file systems of the home and ~/.bashrc.
    places: dict[str, Place] | None
    # The home and /tmp, where the training user cannot write there.
    not_writable: tuple[NotWritable, ...] | None = ()
    # The Python environments that are closed to the training user.
    closed: Annotated[tuple[Closed, ...], Field(max_length=100)] | None = ()
    # The text of /etc/gpu-node/env.sh; empty if it does not exist.
    env_file: str | None
    settings: tuple[Setting, ...] | None
    conf: tuple[Line, ...] | None
    # NAME=PATH of files that NCCL reads, and the training user cannot.
    missing: tuple[str, ...] = ()
    processes: tuple[Process, ...] | None
    # Files with our block, of an SSH user who is no longer the training user.
    left: tuple[str, ...] | None = ()
    # Also None if the login shell does not read ~/.bashrc.
    prints: Prints | None = None
    # What names a proxy on the node itself.
    proxies: tuple[proxy_settings.Proxy, ...] | None = None


def parse_user(text: str) -> User:
    """Parse the lines of name, home and shell."""
    name, home, shell = [*text.split("\n"), ""][:3]
    if not home.startswith("/"):
        raise Unreadable(f"{name} has no home: {home!r}")
    home, shell = checked.path(home), checked.path(shell or "/bin/sh")
    return User(name=checked.user(name), home=home, shell=shell)


def parse_home_places(text: str) -> dict[str, Place]:
    """Parse the file systems of the home, between lines about folders that are not writable."""
    return parse_places(parted(text, "not-writable\t", "closed\t")[1])


def parse_not_writable(text: str) -> tuple[NotWritable, ...]:
    """Parse `not-writable<tab>FOLDER<tab>missing|closed`: the home and /tmp at most."""
    rows = by_word(text, "\t")["not-writable"]
    if len(rows) > 2:
        raise Unreadable(f"{len(rows)} folders, more than the home and /tmp")
    return tuple(map(_FOLDER.row, rows))


def parse_closed(text: str) -> tuple[Closed, ...]:
    """Parse `closed<tab>ENVIRONMENT<tab>PLACE<tab>MODE OWNER`."""
    rows = [row.split("\t") for row in by_word(text, "\t")["closed"]]
    return tuple(
        Closed(environment=checked.path(prefix), place=checked.path(place), mode=mode, owner=owner)
        for prefix, place, status in rows
        for mode, _, owner in [status.partition(" ")]
    )


def parse_launcher(text: str) -> dict[str, str]:
    """Parse NAME=VALUE lines."""
    pairs = [line.partition("=") for line in text.split("\n") if "=" in line]
    return {name: value for name, _, value in pairs}


def parse_settings(text: str) -> tuple[Setting, ...]:
    """Parse the inventory's names, then `PATH<tab>NUMBER<tab>line`."""
    first, *rows = text.split("\n")
    named = set(first.split())
    return tuple(
        Setting(path=path, line=int(number), name=name, value=value)
        for path, number, line in (row.split("\t", 2) for row in rows if row)
        for name, value in assignments(path, line)
        if name in named or is_of_interest(name)
    )


def parse_prints(text: str) -> Prints | None:
    """Parse the count and the line; None if such a shell is not examined."""
    count, _, first = text.partition("\n")
    return Prints(bytes=int(count), first=first) if text else None


def parse_env_file(text: str) -> str:
    """Return the text of our file, with the newline that the shell removed."""
    if text.count("\n") >= MOST_OF_OURS:
        raise Unreadable(f"more than {MOST_OF_OURS} lines")
    return f"{text}\n" if text else ""


def parse(readings: Readings) -> EnvState:
    """Return the area's state from the probe's answers."""
    bashrc = readings.take("env.bashrc", parse_start_file)
    env_file = readings.take("env.file", parse_env_file)
    settings = readings.take("env.settings", parse_settings)
    session = readings.take("env.launcher", parse_launcher)
    conf = readings.take("env.conf", parse_conf)
    known = readings.take("env.proxies", proxy_settings.parse)
    places = readings.take("env.places", parse_home_places)
    return EnvState(
        user=readings.take("env.user", parse_user),
        launcher=session
        and {name: value for name, value in session.items() if _is_of_session(name)},
        bashrc=bashrc,
        places=places,
        not_writable=None if places is None else readings.take("env.places", parse_not_writable),
        closed=None if places is None else readings.take("env.places", parse_closed),
        env_file=env_file,
        settings=_with_env_file(_marked(settings, bashrc), bashrc, env_file),
        conf=conf and tuple(line for line in conf if line.path != _MISSING),
        missing=_missing(conf or (), session or {}),
        processes=readings.take("env.processes", parse_processes),
        left=readings.take("env.left", lines),
        prints=readings.take("env.prints", parse_prints),
        proxies=None
        if known is None
        else (*known.lines, *proxy_settings.of_session(_proxies(session), known)),
    )


def _missing(conf: Iterable[Line], session: dict[str, str]) -> tuple[str, ...]:
    named = {line.text for line in conf if line.path == _MISSING}
    given = {f"{name}={value}" for name, value in session.items() if name.startswith(_OF_SESSION)}
    return tuple(sorted(named | {each.removeprefix(_OF_SESSION) for each in given}))


def _is_of_session(name: str) -> bool:
    return not name.lower().endswith("_proxy") and not name.startswith(_OF_SESSION)


def _proxies(session: dict[str, str] | None) -> dict[str, str]:
    """Return the variables of a session that name a proxy."""
    each = (session or {}).items()
    return {name: value for name, value in each if proxy_settings.VARIABLE.fullmatch(name)}


def _marked(
    settings: tuple[Setting, ...] | None, bashrc: StartFile | None
) -> tuple[Setting, ...] | None:
    """Mark the lines in our blocks as ours."""
    if settings is None or bashrc is None:
        return settings
    ours = {line for block in bashrc.blocks for line in range(block.first, block.last + 1)}
    return tuple(
        setting.model_copy(update={"ours": setting.path == "~/.bashrc" and setting.line in ours})
        for setting in settings
    )


def _with_env_file(
    settings: tuple[Setting, ...] | None, bashrc: StartFile | None, env_file: str | None
) -> tuple[Setting, ...] | None:
    """Add what our blocks of ~/.bashrc read from the node's separate file, at their lines."""
    if settings is None or bashrc is None or not env_file:
        return settings
    short = [line for line in lines_of(env_file) if len(line) <= MOST_OF_A_LINE]
    pairs = [pair for line in short for pair in assignments(ENV_FILE, line)]
    reading = [
        block.first + number
        for block in bashrc.blocks
        for number, line in enumerate(lines_of(block.text))
        if line == READ_ENV_FILE
    ]
    added = [
        Setting(path="~/.bashrc", line=line, name=name, value=value, ours=True)
        for line in reading[:_MOST_READING]
        for name, value in pairs
    ]
    return (*settings, *added)


class Env(AreaFact):
    """Returns `EnvState` as a dict: {"launcher": {"NCCL_DEBUG": "INFO"}, "settings": [...]}."""

    sections_for = staticmethod(sections)
    state = EnvState
    parse = staticmethod(parse)
