"""NCCL rules: the libnccl that torch really loads is the one it was built for, and stays so."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from gpu_node.drift.driver.target import last_cuda, models, torch_for
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Prefix, Subject
from gpu_node.drift.nccl.libnccl import (
    FAILS,
    environments,
    hindrance,
    is_as_wanted,
    is_guessed,
    is_managed,
    is_repairable,
    locked,
    own,
    pinned,
    pip,
    release,
    unclear,
)
from gpu_node.drift.tables import capability, nccl_of, release_of, runs_on
from gpu_node.facts.nccl.state import (
    Environment,
    Library,
    Loads,
    NcclState,
    Wheel,
    code,
    plain,
    shown,
)
from gpu_node.inventories.wanted import NcclWanted

# What a shell, or a file that every program reads, may put before torch's own libnccl.
_PRELOAD = "/etc/ld.so.preload"
_SHADOWS = ("LD_PRELOAD", _PRELOAD, "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class LoadedLibrary(Subject):
    """The NCCL that torch of an environment loads, and whose file it is ("" for another's)."""

    environment: str
    owner: Literal["wheel", "system", ""] = ""

    @override
    def __str__(self) -> str:
        return self.environment


def wheel_of(environment: Environment) -> Wheel | None:
    """Return the one wheel that should own the library: torch's, or the only one there is."""
    pin = environment.torch.wheel if environment.torch else None
    named = [wheel for wheel in environment.wheels if wheel.name == pin]
    if pin is not None:
        return named[0] if named else None
    return environment.wheels[0] if len(environment.wheels) == 1 else None


def kept_wheel(environment: Environment, wanted: NcclWanted) -> str | None:
    """Return the wheel an environment should have, as pip is asked for it; None if not known."""
    torch, wheel = environment.torch, wheel_of(environment)
    version = pinned(environment, wanted)
    if torch is not None and torch.wheel and version:
        return f"{torch.wheel}=={version}"
    return f"{wheel.name}=={wheel.version}" if wheel else None


def wrong_wheels(environment: Environment, wanted: NcclWanted) -> list[Wheel]:
    """Return the NCCL wheels beside the one that an environment should have."""
    keep = kept_wheel(environment, wanted)
    name = keep.partition("==")[0] if keep else None
    return [wheel for wheel in environment.wheels if wheel.name != name]


def _shown(library: Library) -> str:
    version = shown(library.version) if library.version else f"broken ({library.problem})"
    return f"{version} at {plain(library.path)}"


_BY_TABLE = (
    "; torch does not report its NCCL version: this is the one of PyTorch's wheel "
    "of that version, and another build may need another one (name it: nccl: {version: ...})"
)


@check("nccl.duplicate-wheels")
def duplicate_wheels(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for prefix, environment in environments(at.here):
        if len(environment.wheels) < 2:
            continue
        keep = kept_wheel(environment, at.want)
        wrong = " ".join(wheel.name for wheel in wrong_wheels(environment, at.want))
        yield Fault(
            subject=Prefix(prefix),
            found=", ".join(f"{wheel.name} {wheel.version}" for wheel in environment.wheels),
            wanted=f"{keep or 'the one that torch pins'} alone",
            fix=hindrance(environment)
            or (
                f"{pip(prefix, environment, 'uninstall', wrong)}, which deletes the shared file, "
                f"and then {_reinstall(prefix, environment, keep)}"
                if keep
                else "torch does not name the one that it needs: keep the right one manually"
            ),
            fixable=keep is not None and is_repairable(environment),
        )


@check("nccl.wheel-damaged")
def wheel_damaged(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for prefix, environment in environments(at.here):
        keep, damage = kept_wheel(environment, at.want), _damage(environment)
        if keep is None or damage is None:
            continue
        yield Fault(
            subject=Prefix(prefix),
            found=damage,
            wanted=f"the libnccl.so.2 of {keep}",
            fix=hindrance(environment) or _reinstall(prefix, environment, keep),
            fixable=is_repairable(environment),
        )


def _reinstall(prefix: str, environment: Environment, keep: str) -> str:
    words = ("--force-reinstall", "--no-deps", keep)
    return pip(prefix, environment, "install", *words) + locked(environment)


def _damage(environment: Environment) -> str | None:
    """Return what is wrong with a wheel's library; None if nothing is, as far as it was read."""
    file, wheel = environment.file, wheel_of(environment)
    if wheel is None:
        return f"{environment.torch.wheel if environment.torch else 'the wheel'} is not installed"
    if file is None:
        return "no libnccl.so.2"
    if file.problem is not None:
        return f"a libnccl.so.2 that cannot be loaded ({file.problem})"
    if file.version != code(wheel.version):
        return _shown(file)
    if wheel.sha256 is None or wheel.size is None:
        return "the wheel's RECORD does not list it: pip can neither check nor remove it"
    if file.size != wheel.size:
        return f"{file.size} bytes, not the {wheel.size} of its RECORD"
    if file.sha256 not in (None, wheel.sha256):
        return "a file with another sha256 than in its RECORD"
    return None


@check("nccl.shadowed")
def shadowed(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for prefix, environment in environments(at.here):
        loads = environment.loads
        if loads is None or loads.reason not in _SHADOWS or environment.file is None:
            continue
        yield Fault(
            subject=Prefix(prefix),
            found=f"{plain(loads.path or '')}, by {loads.reason}",
            wanted=environment.file.path,
            cause=f"{loads.reason} has precedence over the library that torch is linked "
            "against: the version depends on the shell that starts the job",
            fix=f"remove it from {loads.reason}: {_set_by(at.here, loads)}",
            who="administrator" if loads.reason == _PRELOAD else "user",
        )


# A repair of wheels changes no file of the system, and one of the system's packages no wheel.
_BY_OWNER = {
    "wheel": ("nccl.wheel-damaged", "nccl.duplicate-wheels"),
    "system": ("nccl.package-mismatch",),
}


@check("nccl.loaded-mismatch")
def loaded_mismatch(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for prefix, environment in environments(at.here):
        pin, loads = pinned(environment, at.want), environment.loads
        if environment.torch is None or loads is None or pin is None:
            continue
        library = environment.loaded
        if loads.problem is None and (library is None or library.version == code(pin)):
            continue
        reason = f", by {loads.reason}" if loads.reason else ""
        by_table = library is not None and is_guessed(environment, at.want)
        owner = _owner_of_file(at.here, environment)
        yield Fault(
            subject=LoadedLibrary(prefix, owner),
            found=f"{_shown(library)}{reason}" if library else f"none: {loads.problem}",
            wanted=f"{pin}, which torch {environment.torch.version} is built for",
            cause=f"{FAILS}; before NCCL 2.23.4 nodes with different versions hang without an error"
            f"{_BY_TABLE if by_table else ''}",
            fix=_way_back(at.here, prefix, environment, at.want),
            who="administrator" if _is_roots(environment) else "user",
            fixable=_is_fixable(at.here, environment, at.want),
            severity="warning" if by_table else None,
            # A newer one takes what torch gives it.
            stops=library is None or not library.version or library.version < (code(pin) or 0),
            explained_by=("nccl.shadowed", *_BY_OWNER.get(owner, ())),
        )


def _is_fixable(state: NcclState, environment: Environment, wanted: NcclWanted) -> bool:
    """Whether what torch loads is ours to change: a wheel, or the system's package."""
    owner = _owner(environment)
    if owner == "wheel":
        return is_repairable(environment)
    return owner == "system" and _packages_help(state, wanted)


def _owner(environment: Environment) -> Literal["wheel", "system", ""]:
    """Return whose file torch loads; empty for one that is neither a wheel's nor the system's."""
    loads, torch = environment.loads, environment.torch
    if loads is None or torch is None or loads.reason in _SHADOWS:
        return ""
    if loads.reason != "ld.so.cache" and torch.wheel is not None:
        return "wheel"
    return "system" if loads.reason in ("ld.so.cache", None) else ""


def _is_roots(environment: Environment) -> bool:
    """Whether root alone changes what torch loads."""
    is_preloaded = environment.loads is not None and environment.loads.reason == _PRELOAD
    return is_preloaded or _owner(environment) == "system"


def _owner_of_file(state: NcclState, environment: Environment) -> Literal["wheel", "system", ""]:
    """Return `_owner`, but "" where ld.so.conf puts another file before the package's."""
    owner, library = _owner(environment), environment.loaded
    versions = {code(package.version.partition("-")[0]) for package in own(state)}
    known = library.version if library else None
    return "" if owner == "system" and (known is None or known not in versions) else owner


def _packages_help(state: NcclState, wanted: NcclWanted) -> bool:
    """Whether installing the system's packages changes anything."""
    return is_managed(state, wanted) and not is_as_wanted(state, wanted)


def _way_back(state: NcclState, prefix: str, environment: Environment, wanted: NcclWanted) -> str:
    reason = environment.loads.reason if environment.loads else None
    keep = kept_wheel(environment, wanted)
    if environment.loads is not None and reason in _SHADOWS:
        return f"remove it from {reason}: {_set_by(state, environment.loads)}"
    first = hindrance(environment)
    if first is not None and reason != "ld.so.cache":
        return first
    if reason == "ld.so.cache" and is_as_wanted(state, wanted):
        path = environment.loads.path if environment.loads else ""
        return (
            f"{path} has precedence over the package's library: look in /etc/ld.so.conf.d, and run "
            "ldconfig"
        )
    if keep is not None and reason != "ld.so.cache":
        return _reinstall(prefix, environment, keep)
    if reason in ("ld.so.cache", None):
        return f"install libnccl {release(state, wanted) or 'of that version'}"
    pin = pinned(environment, wanted)
    return (
        f"install NCCL {pin} with the tool that installed it there, such as: "
        f"conda install nccl={pin}"
    )


def _set_by(state: NcclState, loads: Loads) -> str:
    """Return the lines of start files that set what the loader went by, or where to look."""
    name = (loads.reason or "").rpartition("/")[2]
    lines = [line for line in state.settings or () if name in line]
    return "; ".join(lines) or "look in the script that starts the job, and in its launcher's"


@check("nccl.environment-unclear")
def environment_unclear(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for prefix, environment in unclear(at.here):
        yield Fault(
            subject=Prefix(prefix),
            found=", ".join(environment.outside or environment.twice),
            wanted="one torch and one NCCL, in the environment itself",
            fix=hindrance(environment) or "",
        )


@check("nccl.torch-differs")
def torch_differs(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    pins = {
        prefix: nccl_of(environment.torch)
        for prefix, environment in environments(at.here)
        # Environments that the inventory does not name need not be of one job.
        if prefix not in at.here.discovered and environment.torch and nccl_of(environment.torch)
    }
    if at.want.version == "match-torch" and len(set(pins.values())) > 1:
        yield Fault(
            subject="torch",
            found=", ".join(f"{prefix}: NCCL {version}" for prefix, version in pins.items()),
            wanted="one NCCL version for a job",
        )


@check("nccl.torch-gpu")
def torch_gpu(at: At) -> Iterator[Fault]:
    gpus = models(at.node, at.wanted)
    for prefix, environment in environments(at.node.nccl):
        for gpu in gpus:
            without = _without(environment, gpu)
            if environment.torch is None or without is None:
                continue
            major, minor = capability(gpu) or (0, 0)
            yield Fault(
                subject=Prefix(prefix),
                found=without,
                wanted=f"sm_{major}{minor}, for {gpu}",
                fix=f"install one torch on all nodes that is built for sm_{major}{minor}"
                + torch_for(at.node, at.wanted, environment.torch.version),
            )


def _without(environment: Environment, gpu: str) -> str | None:
    """Return what torch has instead of kernels for a GPU; None if it has them, or unknown."""
    torch, needs = environment.torch, capability(gpu)
    if torch is None or needs is None:
        return None
    if torch.version.endswith("+cpu"):
        return f"torch {torch.version}, built without CUDA"
    if torch.architectures is not None:
        has = runs_on(torch.architectures, needs)
        return None if has else f"torch {torch.version} for {' '.join(torch.architectures)}"
    if torch.cuda and (last := last_cuda(torch.cuda, gpu)):
        return f"torch {torch.version} for CUDA {torch.cuda}: CUDA {last} is the last for it"
    release = release_of(torch)
    if needs == (7, 0) and release is not None and "sm_70" not in release.architectures:
        return f"torch {torch.version}, by the table of its releases"
    return None
