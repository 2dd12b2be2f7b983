"""NCCL: every libnccl of a node, and the one that torch of each environment really loads."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from facts import libnccl
from facts.area import AreaFact, State
from facts.asked.environment import code as code
from facts.file_systems import SHARED, USE, Place, parse_places
from facts.named import Named
from facts.probe import Reading, Readings, Section, Unreadable

# What runs in an environment's own Python: three modules as one text, without their imports.
_FOLDER = Path(__file__).parent / "asked"
ASKED = "\n".join(
    line
    for name in ("loading", "builds", "environment")
    for line in (_FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    if not line.startswith("from facts.asked.")
)
ENVIRONMENT_SECONDS = 30
# libnccl has 300 MB, and a slow disk, or one that is far away, reads 2 MB a second.
DEEP_SECONDS = 180


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about NCCL with one for each Python environment, by its folder.

    `deep` reads each library through, so that its sha256 can be compared with the RECORD.
    """
    asked = [_environment(prefix, named.deep) for prefix in named.environments]
    lies = [places(named.environments)] if asked else []
    return (*libnccl.SECTIONS, *lies, *asked)


_PLACES = """
told() {
  printf 'environment\\t%s\\n' "$1"
  if [ -e "$1" ]; then
    places "$1" "$1/bin/python3" "$1/pyvenv.cfg" "$1/conda-meta/history"
  else
    above "$1"
  fi
}
"""


def places(prefixes: Sequence[str]) -> Section:
    """Return the section about where environments lie."""
    asked = "\n".join(f"told {shlex.quote(prefix)}" for prefix in prefixes)
    return Section(PLACES_SECTION, f"{USE}{_PLACES}{asked}", ENVIRONMENT_SECONDS, SHARED)


PLACES_SECTION = "nccl.places"
# A folder below one that is closed only seems to be gone, and so does one behind a dangling link.
_IS_THERE = """prefix={prefix}
if [ ! -e "$prefix" ] && [ ! -L "$prefix" ]; then
  ls -ld "$prefix/" 2>&1 | grep -q 'Permission denied' && {{ echo "$prefix is closed"; exit 1; }}
  echo absent; exit 0
fi"""
_GONE = Reading(0, "absent")


def _environment(prefix: str, deep: bool) -> Section:
    there = _IS_THERE.format(prefix=shlex.quote(prefix))
    python = shlex.quote(f"{prefix}/bin/python3")  # python may be the 2.7 of CentOS 7
    found = f'python={python}; [ -x "$python" ] || python={shlex.quote(f"{prefix}/bin/python")}'
    asked = f'LD_PRELOAD=$gn_preload "$python" -I -B -c "$gn_asked"{" deep" if deep else ""}'
    seconds = DEEP_SECONDS if deep else ENVIRONMENT_SECONDS
    return Section(section_of(prefix), f"{there}\n{found}\n{asked}", seconds, ("gn_asked", ASKED))


def section_of(prefix: str) -> str:
    """Return the name of the section about an environment."""
    return f"nccl.environment:{prefix}"


class Torch(State):
    """torch as its files tell it; `wheel` (nvidia-nccl-cu12) and `nccl` are what it pins.

    `architectures` are those it has kernels for, as in sm_70; None where no list was found.
    """

    version: str
    cuda: str | None
    wheel: str | None
    nccl: str | None
    architectures: tuple[str, ...] | None
    root: str


class Wheel(State):
    """An nvidia-nccl distribution, and what its RECORD says of libnccl.so.2 (sha256 in base64)."""

    name: str
    version: str
    sha256: str | None
    size: int | None


class Library(State):
    """A libnccl.so.2: `version` is what ncclGetVersion says (21801), or None with the problem."""

    path: str
    size: int
    sha256: str | None
    version: int | None
    problem: str | None


class Loads(State):
    """Which libnccl the dynamic loader takes for `user`, and the rule of ld.so(8) it does so by.

    `path` is None where torch has NCCL built in, or no CUDA at all, or the loader fails.
    """

    user: str | None
    path: str | None
    reason: str | None
    problem: str | None


class Environment(State):
    """A Python environment: its torch, the NCCL wheels, the file they share, what torch loads.

    `outside` are torch and wheels that go before its own packages (PYTHONPATH, the user's), `twice`
    metadata folders of one package in one place, `external` tells that the distribution manages it
    (PEP 668). `bitsandbytes` are the libraries in its folder; None where it is not installed.
    `platform` is manylinux_2_17_x86_64 where that is the newest glibc a wheel may ask for.
    """

    python: str
    platform: str | None
    torch: Torch | None
    wheels: tuple[Wheel, ...]
    outside: tuple[str, ...]
    twice: tuple[str, ...]
    external: bool
    file: Library | None
    loads: Loads | None
    loaded: Library | None
    bitsandbytes: tuple[str, ...] | None
    packages: dict[str, str]


class NcclState(libnccl.SystemState):
    """Everything about NCCL that a rule asks for; an environment that is unreadable is None.

    So is one that is `absent`: of which nothing but that is known.
    """

    environments: dict[str, Environment | None]
    absent: tuple[str, ...] = ()
    # Where the files of each environment lie.
    places: dict[str, dict[str, Place]] | None = None


def parse_environment(text: str) -> Environment:
    """Parse the line of JSON that asked/environment.py prints."""
    try:
        return Environment.model_validate(json.loads(text.strip().splitlines()[-1]))
    except json.JSONDecodeError as error:
        raise Unreadable(f"no answer of its Python: {error}") from error


def parse_environment_places(text: str) -> dict[str, dict[str, Place]]:
    """Parse `environment<tab>FOLDER`, each with its places below."""
    found: dict[str, dict[str, Place]] = {}
    for each in re.split(r"^environment\t", text, flags=re.MULTILINE)[1:]:
        prefix, _, rest = each.partition("\n")
        found[prefix] = parse_places(rest)
    return found


def shown(number: int) -> str:
    """Return ncclGetVersion's number as people write it: 21801 is 2.18.1."""
    factor = 10000 if number >= 10000 else 1000
    return f"{number // factor}.{number % factor // 100}.{number % 100}"


def plain(path: str) -> str:
    """Return a path of the loader's for people: no $ORIGIN/../.., and short within packages."""
    return posixpath.normpath(path).rpartition("-packages/")[2]


def parse(readings: Readings) -> NcclState:
    """Return the area's state from the probe's answers."""
    prefix = section_of("")
    asked = [name for name in readings.sections if name.startswith(prefix)]
    gone = [name for name in asked if readings.sections[name] == _GONE]
    environments = {
        name.removeprefix(prefix): None if name in gone else readings.take(name, parse_environment)
        for name in asked
    }
    told: dict[str, object] = {"environments": environments}
    told["absent"] = [name.removeprefix(prefix) for name in gone]
    if PLACES_SECTION in readings.sections:
        told["places"] = readings.take(PLACES_SECTION, parse_environment_places)
    return NcclState.model_validate({**libnccl.parse(readings), **told})


class Nccl(AreaFact):
    """Returns `NcclState` as a dict: {"packages": [...], "environments": {"/opt/conda": {...}}}."""

    sections = libnccl.SECTIONS
    parse = staticmethod(parse)

    @override
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)
