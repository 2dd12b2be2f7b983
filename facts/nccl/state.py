"""NCCL: every libnccl of a node, and the one that the torch of each environment loads."""

import json
import posixpath
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gpu_node.facts.nccl import discovered as unnamed
from gpu_node.facts.nccl import libnccl
from gpu_node.facts.nccl.on_node.environment import code as code
from gpu_node.facts.probe import checked, owner
from gpu_node.facts.probe.base import AreaFact, Parsers, State, taken
from gpu_node.facts.probe.bounds import read_json
from gpu_node.facts.probe.file_systems import SHARED, USE, Place, parse_places
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Reading, Readings, Section, Unread, Unreadable
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

# The program for an environment's own Python: four modules as one text, without their imports.
_FOLDER = Path(__file__).parent / "on_node"
ASKED = "\n".join(
    line
    for name in ("loading", "builds", "library", "environment")
    for line in lines_of((_FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    if not line.startswith("from gpu_node.")
)
# The program that asks an environment's pip for its sources.
SUPPLY = (_FOLDER / "supply.py").read_text(encoding="utf-8")
ENVIRONMENT_SECONDS = 30
# libnccl has 300 MB, and a slow or remote disk reads 2 MB a second.
DEEP_SECONDS = 180


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about NCCL, one of them for each Python environment.

    If the inventory names none, one section finds those with torch. `deep` reads each library
    completely, to compare its sha256 with the RECORD; not of environments that are not named.
    """
    asked = [_environment(prefix, request) for prefix in request.environments]
    if not asked:
        return (*libnccl.SECTIONS, unnamed.section(request, _ASKING))
    return (*libnccl.SECTIONS, places(request.environments), *asked)


def places(prefixes: Sequence[str]) -> Section:
    """Return the section about the file systems of environments."""
    asked = "\n".join(f"environment_places {shlex.quote(prefix)}" for prefix in prefixes)
    return Section(
        PLACES_SECTION, USE + _PLACES + asked, ENVIRONMENT_SECONDS, (SHARED,), light=True
    )


# As in sm_70 and sm_90a: the compute capability is the number, its last digit the minor one.
ARCHITECTURE = re.compile(r"(sm|compute)_[0-9]{2,3}[a-z]?")
Architecture = Annotated[str, Field(pattern=f"^{ARCHITECTURE.pattern}$")]
# A release of a compiler or of CUDA: 9, 12.1.
Release = Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,4}$")]
PLACES_SECTION = "nccl.places"
_PLACES = shell("nccl/places")
_GONE = Reading(0, "absent")
_OLD = re.compile("old\t(2\\.[0-9]|3\\.[0-5])")


# The same text for all environments.
_SHARED = ("gn_environment", owner.ENVIRONMENT_OWNER + shell("nccl/environment"))


# What a section about environments needs of the texts that are sent once.
_ASKING = (("gn_asked", ASKED), owner.SHARED, _SHARED)


def _environment(prefix: str, request: ProbeRequest) -> Section:
    seconds = DEEP_SECONDS if request.deep else ENVIRONMENT_SECONDS
    given = {"prefix": prefix, "deep": "deep" if request.deep else ""}
    by_sudo = "yes" if request.sudo and not request.asks else "no"
    given |= {"owner_sudo": by_sudo, "owner_seconds": str(seconds - 2)}
    command = assigned(**given) + 'eval "$gn_owner$gn_environment"'
    return Section(section_of(prefix), command, seconds, _ASKING, root=request.trains_apart)


def section_of(prefix: str) -> str:
    """Return the name of the section about an environment."""
    return f"nccl.environment:{prefix}"


class Compilers(State):
    """The GCC that torch accepts: `least`, by its headers (9: GCC 9 or later), by CUDA toolkit.

    `cuda` has the first release that is accepted, and the first that is too new.
    """

    least: Release
    header: Release | None
    cuda: Annotated[dict[Release, tuple[Release, Release]], Field(max_length=200)]


class Torch(State):
    """torch by its files; `wheel` (nvidia-nccl-cu12) and `nccl` are what it pins.

    `architectures` are those it has kernels for, such as sm_70; None if no list was found.
    """

    version: str
    cuda: str | None
    wheel: str | None
    nccl: str | None
    architectures: Annotated[tuple[Architecture, ...], Field(fail_fast=True)] | None
    compilers: Compilers | None = None
    root: str


class Operator(State):
    """An operator of DeepSpeed that was compiled at its installation, below deepspeed/ops.

    `architectures` are those it has kernels for; empty: none, it runs on the CPU; None: unknown.
    `time` is when the file was written, in seconds.
    """

    name: str
    size: int
    time: int
    architectures: Annotated[tuple[Architecture, ...], Field(fail_fast=True)] | None


class DeepSpeed(State):
    """DeepSpeed: its compiled operators, and the CUDA releases that it takes for one another.

    `alike` has them in groups; None if its list was not found.
    """

    alike: Annotated[tuple[tuple[str, ...], ...], Field(max_length=50)] | None = None
    operators: Annotated[tuple[Operator, ...], Field(max_length=64)] = ()


class Wheel(State):
    """An nvidia-nccl distribution, and its RECORD's entry for libnccl.so.2 (sha256 in base64)."""

    name: str
    version: str
    sha256: str | None
    size: int | None


class Library(State):
    """A libnccl.so.2: `version` is from ncclGetVersion (21801), or None with the problem.

    `cuda` is the CUDA that it is built for, such as 12.1; None if its constants name none.
    """

    path: str
    size: int
    sha256: str | None
    version: int | None
    problem: str | None
    cuda: Annotated[str, Field(pattern=r"^\d{1,3}\.\d{1,3}$")] | None = None


class Loads(State):
    """Which libnccl the dynamic loader loads for `user`, and by which rule of ld.so(8).

    `path` is None if torch has NCCL built in or has no CUDA, or if the loader fails.
    """

    user: str | None
    path: str | None
    reason: str | None
    problem: str | None


class Environment(State):
    """A Python environment: its torch, the NCCL wheels, the file they share, what torch loads.

    `outside` are torch and wheels that precede its own packages (PYTHONPATH, the user's), `twice`
    several metadata folders of a package in one place, `external`: the distribution manages it (PEP
    668), `pip`: whose pip installs into it, that of its base by --python, `maker`: what made it,
    where that installs from a lock file. `bitsandbytes` are the libraries in its folder; None if it
    is not installed. `platform` is the newest that a wheel may need, such as manylinux_2_17_x86_64.
    """

    python: str
    platform: str | None
    torch: Torch | None
    wheels: Annotated[tuple[Wheel, ...], Field(fail_fast=True)]
    outside: Annotated[tuple[str, ...], Field(fail_fast=True)]
    twice: Annotated[tuple[str, ...], Field(fail_fast=True)]
    external: bool
    pip: Literal["own", "base"] | None = "own"
    maker: Literal["uv", "poetry", "pixi"] | None = None
    file: Library | None
    loads: Loads | None
    loaded: Library | None
    bitsandbytes: Annotated[tuple[str, ...], Field(fail_fast=True)] | None
    deepspeed: DeepSpeed | None = None
    packages: Annotated[dict[str, str], Field(max_length=10_000)]


class NcclState(libnccl.SystemState):
    """Everything about NCCL that rules use; an unreadable environment is None.

    A missing one is None too, and is listed in `absent`.
    """

    environments: dict[str, Environment | None]
    absent: tuple[str, ...] = ()
    # The environments that are None because their Python is too old for the questions, each with
    # its version: 2.7.
    old_pythons: dict[str, Release] = Field(default_factory=dict)
    # The environments that the inventory does not name, each with how it was found: PATH, conda
    # (its list), or the pid of a trainer; and how many more there are.
    discovered: dict[str, str] = Field(default_factory=dict, max_length=unnamed.MOST)
    undiscovered: int = 0
    # The file systems of each environment's files.
    places: dict[str, dict[str, Place]] | None = None


def parse_answer(text: str) -> Environment | str:
    """Parse what the section about an environment prints; a version is that of an old Python."""
    old = _OLD.fullmatch(lines_of(text.strip())[-1])
    return old[1] if old else parse_environment(text)


def parse_environment(text: str) -> Environment:
    """Parse the line of JSON that on_node/environment.py prints."""
    try:
        environment = Environment.model_validate(read_json(lines_of(text.strip())[-1]))
    except json.JSONDecodeError as error:
        raise Unreadable(f"its Python gave no answer: {error}") from error
    _require_words(environment)
    return environment


def _require_words(environment: Environment) -> None:
    """Raise Unreadable for odd values that become arguments of pip, here or on the controller."""
    checked.version(environment.python)
    if environment.platform is not None:
        checked.platform(environment.platform)
    for wheel in environment.wheels:
        checked.package(wheel.name)
        checked.version(wheel.version)
    if environment.deepspeed is not None:
        for text in (text for group in environment.deepspeed.alike or () for text in group):
            checked.version(text)
    if environment.torch is not None:
        checked.version(environment.torch.version)
        checked.package(environment.torch.wheel or "none")
        checked.version(environment.torch.nccl or "0")


def parse_environment_places(text: str) -> dict[str, dict[str, Place]]:
    """Parse `environment<tab>FOLDER` lines, each followed by its places."""
    by_prefix: dict[str, dict[str, Place]] = {}
    for each in re.split(r"^environment\t", text, flags=re.MULTILINE)[1:]:
        prefix, _, rest = each.partition("\n")
        by_prefix[prefix] = parse_places(rest)
    return by_prefix


def shown(number: int) -> str:
    """Return ncclGetVersion's number in its usual form: 21801 is 2.18.1."""
    factor = 10000 if number >= 10000 else 1000
    return f"{number // factor}.{number % factor // 100}.{number % 100}"


def plain(path: str) -> str:
    """Return a readable form of a loader's path: no $ORIGIN/../.., and short within packages."""
    return posixpath.normpath(path).rpartition("-packages/")[2]


PARSERS: Parsers = {
    PLACES_SECTION: ("places", parse_environment_places),
    **libnccl.PARSERS,
}


def parse(readings: Readings) -> NcclState:
    """Return the area's state from the probe's answers."""
    prefix = section_of("")
    asked = [name for name in readings.sections if name.startswith(prefix)]
    gone = [name for name in asked if readings.sections[name] == _GONE]
    answers = {
        name.removeprefix(prefix): None if name in gone else readings.take(name, parse_answer)
        for name in asked
    }
    discovered = _discovered(readings)
    fields: dict[str, object] = {"discovered": discovered.how, "undiscovered": discovered.more}
    for prefix, line in discovered.answers.items():
        readings.sections[section_of(prefix)] = Reading(0, line)
        answers[prefix] = readings.take(section_of(prefix), parse_answer)
    for prefix, reason in discovered.problems.items():
        readings.unread.append(Unread(section_of(prefix), reason))
        answers[prefix] = None
    old = {prefix: each for prefix, each in answers.items() if isinstance(each, str)}
    fields["environments"] = {**answers, **dict.fromkeys(old)}
    fields["old_pythons"] = old
    fields["absent"] = [name.removeprefix(prefix) for name in gone]
    return NcclState.model_validate({**taken(readings, PARSERS), **fields})


def _discovered(readings: Readings) -> unnamed.Discovered:
    asked = readings.sections.get(unnamed.NAME)
    discovered = readings.take(unnamed.NAME, unnamed.parse) if asked else None
    return discovered or unnamed.Discovered()


class Nccl(AreaFact):
    """Returns `NcclState` as a dict: {"packages": [...], "environments": {"/opt/conda": {...}}}."""

    sections_for = staticmethod(sections)
    sections = libnccl.SECTIONS
    state = NcclState
    parse = staticmethod(parse)
