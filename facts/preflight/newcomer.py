"""What a server reports before it becomes a node: system, rights, space, names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.limited import LIMITED
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import shell

# Folders in which the deploy writes; an inventory adds more.
PATHS = ("/", "/usr", "/boot", "/var", "/opt", "/tmp")  # noqa: S108 (its free space is asked)
_SPACE = shell("preflight/space")


def sections(paths: Iterable[str]) -> tuple[Section, ...]:
    """Return the sections about a server itself; `paths` are further paths whose space is read."""
    words = " ".join(shlex.quote(path) for path in dict.fromkeys((*PATHS, *paths)))
    return (
        Section("preflight.system", shell("preflight/system")),
        Section("preflight.account", shell("preflight/account")),
        Section("preflight.space", f"set -- {words}\n{_SPACE}"),
        IDENTITY,
        UUIDS,
        Section("preflight.runfile", shell("preflight/runfile"), seconds=20),
    )


IDENTITY = Section("preflight.identity", LIMITED + shell("preflight/identity"))
UUIDS = Section("preflight.uuids", shell("preflight/uuids"), seconds=30)


class System(State):
    """The release in os-release: ID, VERSION_ID ("" where it has none), name; uname."""

    id: str
    version: str
    name: str
    machine: str
    kernel: str


class Account(State):
    """The account; `sudo` is None for root, "works", or the output of sudo if it refuses."""

    user: str
    uid: int
    sudo: str | None


class Space(State):
    """A path and the file system it is on: free bytes, free inodes (None: not counted)."""

    path: str
    mount: str
    free: int
    inodes: int | None
    read_only: bool


class Identity(State):
    """What identifies a machine: its machine-id ("": none), its name, its full name."""

    machine_id: str
    hostname: str
    full: str


class Runfile(State):
    """Traces of NVIDIA's installer, and modules of the driver that no package owns."""

    installers: tuple[str, ...]
    modules: tuple[str, ...]


def _words(text: str) -> dict[str, str]:
    """Parse lines of a word and its value; the last one counts."""
    return {word: value.strip() for word, _, value in (x.partition(" ") for x in lines_of(text))}


def parse_system(text: str) -> System:
    """Parse lines `id`, `version`, `name`, `machine` and `kernel`."""
    values = _words(text)
    if not values["machine"] or not (values["id"] or values["name"]):
        raise Unreadable("neither os-release nor redhat-release names the system")
    return System.model_validate(values)


def parse_account(text: str) -> Account:
    """Parse lines `user`, `uid` and, if the user is not root, `sudo`."""
    values = _words(text)
    return Account(user=values["user"], uid=int(values["uid"]), sudo=values.get("sudo"))


def parse_space(text: str) -> tuple[Space, ...]:
    """Parse `bytes PATH` and `inodes PATH` with df's lines, and `closed MOUNT`, with tabs."""
    rows = [line.split("\t") for line in lines_of(text)]
    closed = {row[1] for row in rows if row[0] == "closed"}
    inodes = {row[1]: _df(row[2]) for row in rows if row[0] == "inodes"}
    found = []
    for path, line in ((row[1], row[2]) for row in rows if row[0] == "bytes"):
        space = _df(line)
        if space is None:
            raise Unreadable(f"df prints nothing about {path}")
        counted = inodes.get(path)
        found.append(
            Space(
                path=path,
                mount=space[2],
                free=space[1] * 1024,
                inodes=counted[1] if counted and counted[0] else None,
                read_only=space[2] in closed,
            )
        )
    return tuple(found)


def _df(line: str) -> tuple[int, int, str] | None:
    """Return total, free and mount of a line of df; the names in it may contain blanks."""
    found = re.search(r"\s(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s+(\d+%|-)\s+(/.*)", line, re.DOTALL)
    if found is None:
        return None
    total, free = (int(found[n]) if found[n] != "-" else 0 for n in (1, 3))
    return total, max(free, 0), found[5]


def parse_identity(text: str) -> Identity:
    """Parse lines `machine-id`, `hostname` and `full`; an image has `uninitialized` for none."""
    values = _words(text)
    own = values["machine-id"]
    return Identity(
        machine_id="" if own == "uninitialized" else own,
        hostname=values["hostname"],
        full=values["full"],
    )


def parse_uuids(text: str) -> tuple[str, ...]:
    """Parse lines of a GPU's UUID."""
    found = tuple(text.split())
    odd = [each for each in found if not each.startswith("GPU-") or "?" in each]
    if odd:
        raise Unreadable(f"no UUID of a GPU: {odd[0]}")
    return found


def parse_runfile(text: str) -> Runfile:
    """Parse `installer FILE` and `module FILE` lines."""
    rows = [line.partition(" ")[::2] for line in lines_of(text)]
    return Runfile(
        installers=tuple(file for word, file in rows if word == "installer"),
        modules=tuple(file for word, file in rows if word == "module"),
    )
