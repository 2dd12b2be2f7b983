"""Which libnccl a system should have: the version torch is built for, in its family's packages."""

from collections.abc import Iterable, Iterator
from shlex import quote

from gpu_node.drift.tables import nccl_of
from gpu_node.facts.nccl.libnccl import DEB, RPM, Package
from gpu_node.facts.nccl.state import Environment, NcclState, shown
from gpu_node.facts.packages.locks import name_and_version
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.wanted import NcclWanted

# What a job ends in that loads another libnccl than torch was built for.
FAILS = (
    "starting a job ends in 'Invalid config blocking attribute value -2147483648' "
    "(ncclInvalidArgument), or hangs"
)
# The packages that are matched; any other whose name begins so is of another vendor.
FAMILY = {"rpm": RPM, "deb": DEB}
BY_MANAGER: dict[str, tuple[str, ...]] = {"apt-get": DEB, "dnf": RPM, "yum": RPM, "none": ()}


def is_unclear(environment: Environment) -> bool:
    """Whether which torch or NCCL a job gets of it depends on who starts the job, and how."""
    return bool(environment.outside or environment.twice)


def environments(state: NcclState) -> Iterator[tuple[str, Environment]]:
    """Yield the environments that could be read, each with its folder.

    One that is unclear is left out: nothing is derived from it, and it has a finding of its own.
    """
    for prefix, environment in state.environments.items():
        if environment is not None and not is_unclear(environment):
            yield prefix, environment


def unclear(state: NcclState) -> Iterator[tuple[str, Environment]]:
    """Yield the environments that `environments` leaves out, each with its folder."""
    for prefix, environment in state.environments.items():
        if environment is not None and is_unclear(environment):
            yield prefix, environment


def pinned(environment: Environment, wanted: NcclWanted) -> str | None:
    """Return the NCCL version an environment should load: torch's own, unless one is named."""
    if wanted.version != "match-torch":
        return wanted.version.partition("+")[0]
    return nccl_of(environment.torch) if environment.torch else None


def is_guessed(environment: Environment, wanted: NcclWanted) -> bool:
    """Whether the table of releases alone says which NCCL an environment's torch is built for."""
    is_pinned = environment.torch is not None and environment.torch.nccl is not None
    return wanted.version == "match-torch" and not is_pinned


def is_built_in(environment: Environment) -> bool:
    """Whether torch has its NCCL within itself: no wheel and no package is asked for one."""
    return environment.loads is not None and environment.loads.reason == "built in"


def loaded(environment: Environment) -> str:
    """Return the version of the NCCL that torch loads, or has within itself, for people."""
    if environment.loaded is not None:
        return shown(environment.loaded.version) if environment.loaded.version else "broken"
    if environment.loads is not None and environment.loads.problem:
        return "broken"
    version = nccl_of(environment.torch) if environment.torch else None
    return version or "built in"


def own(state: NcclState) -> list[Package]:
    """Return NVIDIA's packages, or the distribution's of the same names."""
    return [package for package in state.packages or () if package.name in FAMILY[package.kind]]


def repository_url(manager: str | None, wanted: NcclWanted) -> str:
    """Return the repository for a node's family; empty if the node's own ones have the packages."""
    if wanted.repository is None:
        return ""
    of_apt = FAMILIES.get(manager or "") == "apt" and wanted.repository.apt
    return of_apt or wanted.repository.url


def target(state: NcclState, wanted: NcclWanted) -> str | None:
    """Return the version the packages should have, with its CUDA where that is known."""
    if wanted.version != "match-torch":
        return wanted.version
    if len(dict(environments(state))) < len(state.environments):
        return None  # the one that could not be read, or is unclear, may want another
    pins = {
        (nccl_of(environment.torch), environment.torch.cuda)
        for _, environment in environments(state)
        if environment.torch and nccl_of(environment.torch) and not is_built_in(environment)
    }
    if len(pins) != 1:
        return None  # none, or several: nccl.torch-differs
    version, cuda = pins.pop()
    return f"{version}+cuda{cuda}" if cuda else version


def release(state: NcclState, wanted: NcclWanted) -> str | None:
    """Return the package version that is wanted, as in 2.18.1-1+cuda12.1; None if not known.

    Source: NCCL's pkg/ folder; the revision has been 1 in every release since 2.3.
    """
    version, _, cuda = (target(state, wanted) or "").partition("+")
    return f"{version}-1+{cuda}" if cuda else None


def is_version(installed: str, wanted: str) -> bool:
    """Whether 2.18.1-1+cuda12.1 is 2.18.1+cuda12.1, or 2.18.1 where no CUDA is asked for."""
    version, _, cuda = wanted.partition("+")
    is_cuda = not cuda or installed.partition("+")[2] == cuda
    return installed.partition("-")[0] == version and is_cuda


def is_managed(state: NcclState, wanted: NcclWanted) -> bool:
    """Whether the deploy can and may install the packages that are wanted here.

    The torch of an environment that the inventory does not name decides nothing.
    """
    is_by_chance = wanted.version == "match-torch" and bool(state.discovered)
    return (
        wanted.packages is True
        and not is_by_chance
        and state.packages is not None
        and state.manager not in (None, "none")
        and release(state, wanted) is not None
    )


def is_held(package: Package, locks: tuple[str, ...]) -> bool:
    """Whether an update leaves the package: apt-mark's word, or yum's or dnf's list.

    A line for another version of it allows that one, too.
    """
    name, version = package.name, package.version
    lines = {line.strip() for line in locks if _locked_name(line.strip()) == name}
    if any(version not in line for line in lines):
        return False
    forms = (f"{name}-0:{version}", f"0:{name}-{version}", f"{name}-{version}")
    return package.held or any(
        f"{form}{end}" in lines for form in forms for end in (".*", "", f".{package.arch}")
    )


def _locked_name(line: str) -> str:
    """Return the package of dnf's libnccl-0:2.18.1-1.*, and of yum's 0:libnccl-2.18.1-1.*."""
    return name_and_version(line)[0]


def is_as_wanted(state: NcclState, wanted: NcclWanted) -> bool:
    """Whether the packages are what they should be: then they are not what goes wrong."""
    names = BY_MANAGER[state.manager or "none"]
    return is_installed(state, names, release(state, wanted) or "")


def is_installed(state: NcclState, names: Iterable[str], version: str) -> bool:
    """Whether each package is there once, at that version, with the files that it brought."""
    there = sorted((package.name, package.version) for package in own(state))
    return state.files == () and there == sorted((name, version) for name in names)


def hindrance(environment: Environment) -> str | None:
    """Return what keeps pip from repairing an environment, and what to do first."""
    if environment.outside:
        return (
            f"{', '.join(environment.outside)}: Python uses them before the environment's "
            "packages; remove them there, or set PYTHONNOUSERSITE=1 or clear PYTHONPATH for the job"
        )
    if environment.twice:
        return (
            "an upgrade was cut off: move away the metadata that is not of the installed version: "
            f"{', '.join(environment.twice)}"
        )
    if environment.external:
        return (
            "the distribution manages this Python's packages (PEP 668): use a virtual environment, "
            "or change them manually"
        )
    return None


def is_repairable(environment: Environment) -> bool:
    """Whether a deploy changes the packages of an environment: by a pip, of its base as well."""
    return environment.pip is not None and hindrance(environment) is None


def pip(prefix: str, environment: Environment, verb: str, *words: str) -> str:
    """Return the command that changes an environment's packages, by what is there to do so."""
    if environment.pip == "own":
        command = f"{quote(prefix)}/bin/python -m pip {verb}"
    elif environment.maker == "uv":
        command = f"uv pip {verb} --python {quote(prefix)}"
        words = tuple("--reinstall" if each == "--force-reinstall" else each for each in words)
    else:
        # Since pip 22.3.
        first = "" if environment.pip else "install the package python3-pip, then "
        command = f"{first}python3 -m pip --python {quote(prefix)} {verb}"
    return " ".join([command, *words])


def locked(environment: Environment) -> str:
    """Return what else to do where a lock file names the packages of an environment."""
    if environment.maker is None:
        return ""
    return f"; {environment.maker} installs what its lock file names: change it there as well"


def bites(state: NcclState) -> list[str]:
    """Return what would load the system's libnccl: torch without a path of its own, programs."""
    torches = [
        f"torch of {prefix}"
        for prefix, environment in environments(state)
        if environment.loads is not None and environment.loads.reason == "ld.so.cache"
    ]
    return [*torches, *(program.path for program in state.programs or ())]
