"""Job: what the command line of a job, and the files that it names, lead to on a node.

Nothing of it is asked unless a command gives a job. What a user's file names is looked at as the
training user.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.file_systems import PLACES, Place, parse_places
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import LIMITED, assigned, shell
from gpu_node.facts.probe.training_user import SHARED as AS_USER
from gpu_node.facts.probe.training_user import USE

# Of a file that a job reads; how many names of a hostfile are resolved, how many ports are listed.
MOST_BYTES, _MOST_NAMES, _MOST_PORTS = 65536, 64, 4096
_FILES = shell("job/files", most=MOST_BYTES)
_PATHS = PLACES + LIMITED + shell("job/paths", most=MOST_BYTES)
_NAMES = LIMITED + shell("job/names", most=MOST_BYTES, names=_MOST_NAMES)
_PLACE, _PROGRAMS = shell("job/place"), shell("probe/closed_at") + shell("job/programs")
# The time limits add up: a file server that does not answer takes 5 seconds a path.
_SECONDS = 60


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about a job; none where no command gives one."""
    job = request.job
    if job is None:
        return ()
    configs = [each for each in job.files if each.endswith(".json")]
    looked_at = (str(len(configs)), *configs, *job.paths)
    place = assigned(folder=job.folder, hostfile=job.hostfile) + _PLACE
    ports = assigned(user=request.user) + shell("job/ports", most=_MOST_PORTS)
    programs = _section("programs", request, job.programs, _PROGRAMS, "as_launcher")
    return (
        _section("files", request, job.files, place + _FILES),
        _section("paths", request, looked_at, place + _PATHS),
        *((programs,) if job.programs else ()),
        Section("job.ports", ports),
        _section("names", request, job.names, place + _NAMES),
    )


def _section(
    name: str, request: ProbeRequest, words: Sequence[str], script: str, run: str = "as_user"
) -> Section:
    script = f"set -- {shlex.join(words)}\n{script}"
    command = f"{assigned(user=request.user)}{USE}{run} {shlex.quote(script)}"
    return Section(f"job.{name}", command, _SECONDS, (AS_USER,), root=request.trains_apart)


class File(State):
    """A file that the job reads, and its text; `problem` is why there is none."""

    path: str
    text: str = ""
    problem: str = ""


class JobPath(State):
    """What is at a path for the training user: of what is missing, `access` is that of above.

    `access` has some of r, w and x; `free` bytes are None where the file system did not answer.
    """

    path: str
    kind: Literal["file", "directory", "other", "missing"]
    access: str
    free: int | None
    place: Place | None = None


class Program(State):
    """A program of the job in a launcher's shell; `path` is empty where there is none.

    `python` is the interpreter that its first line names, `closed` what the training user may not
    enter or start on the way to it.
    """

    name: str
    path: str
    python: str
    closed: str | None = None


class Python(State):
    """A Python and the packages beside it; `version` is empty where it cannot be seen.

    `closed` is as that of a program.
    """

    path: str
    version: str
    packages: dict[str, str]
    closed: str | None = None


_PATH = Columns(JobPath, "path kind access free")
_PROGRAM = Columns(Program, "name path python closed", closed=lambda cell: cell or None)


class JobState(State):
    """What a node has of the job; all of it is None where no job is given."""

    files: tuple[File, ...] | None = None
    paths: tuple[JobPath, ...] | None = None
    programs: tuple[Program, ...] | None = None
    pythons: tuple[Python, ...] | None = None
    # The addresses that programs listen on, as the kernel writes them, by port.
    listening: dict[int, tuple[str, ...]] | None = None
    uid: int | None = None
    first_free_port: int | None = None
    # None: no answer.
    names: dict[str, tuple[str, ...] | None] | None = Field(default=None)


def parse_files(text: str) -> tuple[File, ...]:
    """Parse `file<tab>PATH<tab>STATUS`, each before its lines, which begin with =."""
    files: list[tuple[str, str, list[str]]] = []
    for line in text.split("\n"):
        if line.startswith("="):
            files[-1][2].append(line[1:])
        elif line:
            _, path, status = line.split("\t")
            files.append((path, status, []))
    return tuple(
        File(path=path, text="\n".join(lines), problem="" if status == "read" else status)
        for path, status, lines in files
    )


def parse_paths(text: str) -> tuple[JobPath, ...]:
    """Parse `path<tab>...`, each before its `place<tab>...`."""
    rows = by_word(text, "\t", "path place")
    places = parse_places("\n".join(rows["place"]))
    return tuple(_PATH.row(row, place=places.get(row.partition("\t")[0])) for row in rows["path"])


def parse_programs(text: str) -> tuple[tuple[Program, ...], tuple[Python, ...]]:
    """Parse the lines `program<tab>...` and `python<tab>...`; a shell may print others."""
    programs, pythons = [], []
    for kind, *row in (line.split("\t") for line in text.split("\n")):
        if kind == "program" and len(row) in (3, 4):
            programs.append(_PROGRAM.row("\t".join(row)))
        elif kind == "python" and len(row) in (3, 4):
            path, version, named, closed = [*row, ""][:4]
            packages = dict(_packages(named.split()))
            known = Python(path=path, version=version, packages=packages, closed=closed or None)
            pythons.append(known)
    if not programs:
        raise Unreadable(f"a launcher's shell ended first: {text.strip()[-80:]!r}")
    return tuple(programs), tuple(pythons)


def _packages(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, version = word.partition("-")
        yield name.replace("_", "-"), checked.version(version.partition("-py")[0])


def parse_ports(text: str) -> tuple[dict[int, tuple[str, ...]], int, int]:
    """Parse the line `uid<tab>...`, and `port<tab>PORT<tab>ADDRESS`."""
    rows = by_word(text, "\t", "uid port")
    uid, first = rows["uid"][0].split("\t")
    ports: dict[int, list[str]] = {}
    for port, address in (row.split("\t") for row in rows["port"]):
        ports.setdefault(checked.number(port, 65535), []).append(address)
    listening = {port: tuple(addresses) for port, addresses in ports.items()}
    return listening, checked.number(uid), checked.number(first, 65536)


def parse_names(text: str) -> dict[str, tuple[str, ...] | None]:
    """Parse `name<tab>NAME<tab>ADDRESS ...`."""
    rows = (row.split("\t") for row in by_word(text, "\t", "name")["name"])
    return {
        name: None if found == "?" else checked.addresses(found.split()) for name, found in rows
    }


PARSERS: Parsers = {
    "job.programs": ("programs pythons", parse_programs),
    "job.ports": ("listening uid first_free_port", parse_ports),
    "job.files": ("files", parse_files),
    "job.paths": ("paths", parse_paths),
    "job.names": ("names", parse_names),
}


class Jobs(AreaFact):
    """Returns `JobState` as a dict; without a job all of it is None."""

    sections_for = staticmethod(sections)
    state = JobState
    parsers = PARSERS
