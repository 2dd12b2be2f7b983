"""What a build of CUDA extensions finds: toolkit, compilers, ninja, pdsh; what was built before."""

import re
from typing import Annotated, Literal

from pydantic import Field

from gpu_node.facts.nccl.state import ARCHITECTURE
from gpu_node.facts.probe import checked, owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.training_user import SHARED as AS_USER

NAME = "toolchain.build"
# More folders than one user's operators have.
MOST_BUILT = 64
# Another user's shell is left as soon as it has read the start files, which may print anything.
_RUN = r"""eval "$gn_as_user"
eval "$gn_owner"
if [ "$user" = "$me" ]; then eval "$build"; exit; fi
all=$(as_launcher "exec /bin/sh -c $(owner_quoted "$gn_owner$build")" 2>&1) ||
{ printf '%s\n' "$all" | tail -n 1; exit 1; }
printf '%s\n' "$all" | sed -n "/^path$(printf '\t')/,\$p"
"""
_SCRIPT = assigned(build=shell("toolchain/build")) + _RUN

# `Cuda compilation tools, release 12.1, V12.1.105`, as DeepSpeed and torch read it.
_RELEASE = re.compile(r"release (\d+\.\d+)\b(?:, V([\d.]+))?")
_GCC = re.compile(r"\d+(\.\d+)*")
_WORD = re.compile(r"code=\[?(\S+)|-D__(AVX\d+)__")


def section(request: ProbeRequest) -> Section:
    """Return the section; for another user than the SSH user only root may start that shell."""
    return Section(
        NAME,
        assigned(user=request.user) + _SCRIPT,
        seconds=15,
        shared=(AS_USER, owner.SHARED),
        root=request.trains_apart,
    )


class Program(State):
    """A program, its real file, its version (None: `output` shows none), and what it prints."""

    path: str
    real: str
    version: str | None
    output: str = ""


class Ninja(State):
    """The first ninja in PATH: the build system, another program, or a script that cannot run."""

    path: str
    kind: Literal["ninja", "other", "broken"]


class Built(State):
    """A folder in which torch has compiled an extension, by its build.ninja.

    `architectures` are those of its kernels, such as sm_70; `vectors` is AVX512 or AVX256 where the
    code for the CPU was compiled for that.
    """

    folder: str
    architectures: tuple[str, ...]
    vectors: str = ""


class Unloadable(State):
    """A folder on a mount that is noexec; `variable` names another one for its compiled code."""

    variable: Literal["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"]
    folder: str
    mount: str


_NINJA = Columns(Ninja, "path kind", path=checked.path)
_NOEXEC = Columns(Unloadable, "variable folder mount", folder=checked.path, mount=checked.path)


class Build(State):
    """What a launcher's shell has for a build, in the order in which torch looks for it.

    `path` is its PATH, `cuda` the toolkit's folder, `nvcc` the compiler in it, `limit` the newest
    major version of gcc that the toolkit's header accepts, `cxx` the compiler of C++ and `host` the
    one that nvcc starts: they are None where there is no nvcc, too. `there` are toolkits and
    compilers that PATH need not have. `flags` are those of the CPU. `skips`: DS_SKIP_CUDA_CHECK=1;
    `unchecked`: TORCH_DONT_CHECK_COMPILER_ABI is set.
    """

    path: tuple[str, ...]
    cuda: str | None = None
    nvcc: Program | None = None
    limit: int | None = None
    cxx: Program | None = None
    host: Program | None = None
    ninja: Ninja | None = None
    pdsh: str | None = None
    there: Annotated[tuple[str, ...], Field(max_length=200)] = ()
    flags: tuple[str, ...] = ()
    built: Annotated[tuple[Built, ...], Field(max_length=MOST_BUILT)] = ()
    noexec: tuple[Unloadable, ...] | None = None
    skips: bool = False
    unchecked: bool = False


def parse(text: str) -> Build:
    """Parse lines of a kind and its fields, with tabs between them."""
    rows = by_word(text, "\t")
    one = {word: [*several[-1].split("\t"), "", "", ""] for word, several in rows.items()}
    if "path" not in one:
        raise Unreadable("no PATH")
    limit = one.get("limit")
    return Build(
        path=tuple(one["path"][0].split(":")),
        cuda=checked.path(one["cuda"][0]) if "cuda" in one else None,
        nvcc=_nvcc(one.get("nvcc")),
        limit=checked.number(limit[0], most=999) if limit else None,
        cxx=_compiler(one.get("cxx")),
        host=_compiler(one.get("host")),
        ninja=next(map(_NINJA.row, rows["ninja"]), None),
        pdsh=checked.path(one["pdsh"][0]) if "pdsh" in one else None,
        there=tuple(map(checked.path, rows["there"])),
        flags=tuple(one["flags"][0].split()) if "flags" in one else (),
        built=tuple(map(_built, rows["built"])),
        noexec=tuple(map(_NOEXEC.row, rows["noexec"])) or None,
        skips="skips" in one,
        unchecked="unchecked" in one,
    )


def _nvcc(row: list[str] | None) -> Program | None:
    if row is None:
        return None
    match = _RELEASE.search(row[2])
    output = (match[2] or "") if match else row[2][:200]
    return _program(row, match[1] if match else None, output)


def _compiler(row: list[str] | None) -> Program | None:
    if row is None:
        return None
    version = row[2].strip()
    is_version = _GCC.fullmatch(version) is not None
    return _program(row, version if is_version else None, "" if is_version else version[:200])


def _program(row: list[str], version: str | None, output: str) -> Program:
    path, real = checked.path(row[0]), checked.path(row[1])
    return Program(path=path, real=real, version=version, output=output)


def _built(row: str) -> Built:
    folder, _, flags = row.partition("\t")
    words = [_WORD.fullmatch(word) for word in flags.split()]
    codes = [word[1] for word in words if word and word[1]]
    vectors = [word[2] for word in words if word and word[2]]
    if odd := [code for code in codes if not ARCHITECTURE.fullmatch(code)]:
        raise Unreadable(f"not an architecture of a GPU: {odd[0][:60]!a}")
    return Built(
        folder=checked.path(folder),
        architectures=tuple(codes),
        vectors=max(vectors, default=""),
    )
