"""Locks on libnccl: which lines on a node are an administrator's, and which a run of ours wrote.

A hold that our note lists, unchanged, is ours. A node that was converged before there was a note
has none: there a hold on the wanted version counts as ours, and so do the holds of all packages of
the family at the one version that is installed, where our repository's file exists as well.
"""

from dataclasses import dataclass

from gpu_node.drift.nccl.libnccl import BY_MANAGER, is_installed, own
from gpu_node.facts.globs import matches
from gpu_node.facts.nccl.state import NcclState
from gpu_node.facts.packages.locks import LockLine

_ARCHITECTURES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Barrier:
    """A lock of an administrator: the packages it is about, what it does, and where it is."""

    names: str
    does: str
    where: str


def barriers(state: NcclState, release: str) -> list[Barrier] | None:
    """Return the administrator's locks that `release` of libnccl would go against.

    None where it could not be read what holds packages back: then nothing may be changed either.
    """
    if state.lock_lines is None or state.holds is None or state.packages is None:
        return None
    if state.manager == "apt-get":
        return [*_apt_holds(state, release), *_pins(state, state.lock_lines, release)]
    names = BY_MANAGER[state.manager or "none"]
    locked = [_versionlock(state, line, names, release) for line in state.lock_lines]
    excluded = [_exclude(line, names, release) for line in state.lock_lines]
    if is_installed(state, names, release):
        excluded = []
    return [each for each in (*locked, *excluded) if each is not None]


def old_locks(state: NcclState, release: str) -> list[LockLine]:
    """Return the lines of versionlock's list that hold libnccl at another version."""
    names = BY_MANAGER[state.manager or "none"]
    return [
        line
        for line in state.lock_lines or ()
        if line.kind == "versionlock"
        and not line.denies
        and _touched(line, names)
        and not _allows(line, release)
    ]


def passed_over(state: NcclState, release: str) -> list[LockLine]:
    """Return the lines that keep libnccl out of one repository alone; others may have it."""
    names = BY_MANAGER[state.manager or "none"]
    return [
        line
        for line in state.lock_lines or ()
        if line.kind == "exclude" and line.scope != "main" and _excluded(line, names, release)
    ]


def where(line: LockLine) -> str:
    """Return a lock's file and line, its text, and its comment."""
    comment = f' (its comment: "{line.comment}")' if line.comment else ""
    return f"{line.file}:{line.line}: {line.text}{comment}"


def _touched(line: LockLine, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(matches(name, each) for each in line.names)]


def _allows(line: LockLine, release: str) -> bool:
    patterns = (line.version or "*", f"{line.version}-*")
    return release in line.text or any(matches(release, pattern) for pattern in patterns)


def _versionlock(
    state: NcclState, line: LockLine, names: tuple[str, ...], release: str
) -> Barrier | None:
    touched = _touched(line, names) if line.kind == "versionlock" else []
    if not touched or line.denies != _allows(line, release) or _is_ours(state, line, names):
        return None
    verb = "excludes" if line.denies else "holds"
    return Barrier(", ".join(touched), f"{verb} {line.version or 'it'}", where(line))


def _is_ours(state: NcclState, line: LockLine, names: tuple[str, ...]) -> bool:
    """Whether a run of ours wrote a line of versionlock's list."""
    if line.denies:
        return False
    noted = {(hold.package, hold.version) for hold in state.holds or ()}
    if any((name, line.version) in noted for name in line.names):
        return True
    lines = [each for each in state.lock_lines or () if each.kind == "versionlock"]
    exact = {
        (each.names[0], each.version)
        for each in lines
        if not each.denies and not each.comment and each.names[0] in names
    }
    version = _family_version(state, names)
    is_whole = {(name, version) for name in names} <= exact
    return is_whole and (line.names[0], line.version) in exact and line.version == version


def _family_version(state: NcclState, names: tuple[str, ...]) -> str | None:
    """Return the version of all packages on a node that was converged before there was a note."""
    there = {(package.name, package.version) for package in own(state)}
    versions = {version for _, version in there}
    if state.holds or not state.has_repository or {name for name, _ in there} != {*names}:
        return None
    return versions.pop() if len(versions) == 1 else None


def _excluded(line: LockLine, names: tuple[str, ...], release: str) -> list[str]:
    return [
        name
        for name in names
        if any(matches(form, each) for form in _forms(name, release) for each in line.names)
    ]


def _forms(name: str, release: str) -> list[str]:
    """Return what yum and dnf compare with the patterns of an exclude=."""
    plain = [name, f"{name}-{release}"]
    return [*plain, *(f"{each}.{arch}" for each in plain for arch in _ARCHITECTURES)]


def _exclude(line: LockLine, names: tuple[str, ...], release: str) -> Barrier | None:
    kept = _excluded(line, names, release) if line.kind == "exclude" else []
    if not kept or line.scope != "main":
        return None
    return Barrier(", ".join(kept), "is excluded from every transaction", where(line))


def _apt_holds(state: NcclState, release: str) -> list[Barrier]:
    """Return the holds at another version; dpkg keeps no line or comment with them."""
    noted = {(hold.package, hold.version) for hold in state.holds or ()}
    held = [each for each in own(state) if each.held]
    family = _family_version(state, BY_MANAGER["apt-get"])
    is_family = family is not None and len({each.name for each in held}) == 2
    return [
        Barrier(each.name, f"is on hold at {each.version}", f"apt-mark hold {each.name}")
        for each in held
        if each.version != release and (each.name, each.version) not in noted and not is_family
    ]


def _pins(state: NcclState, lines: tuple[LockLine, ...], release: str) -> list[Barrier]:
    names = BY_MANAGER["apt-get"]
    if is_installed(state, names, release):
        return []
    pins = [line for line in lines if line.kind == "pin"]
    pinned = [(line, _pinned(line, names)) for line in pins]
    return [
        Barrier(", ".join(kept), "is pinned", where(line))
        for line, kept in pinned
        if kept and not _pin_fits(line, release)
    ]


def _pinned(line: LockLine, names: tuple[str, ...]) -> list[str]:
    """Return the packages that a pin names; one of all packages is about their source alone."""
    chosen = [each for each in line.names if each.strip("*")]
    return [name for name in names if any(_names(each, name) for each in chosen)]


def _names(pattern: str, name: str) -> bool:
    """Whether a name, a pattern or a source of apt's preferences is a package."""
    if pattern.startswith("src:"):
        return "nccl" in pattern
    return matches(name, pattern.partition(":")[0])


def _pin_fits(line: LockLine, release: str) -> bool:
    """Whether a pin is about the wanted version, and does not keep it out."""
    kind, _, version = line.version.partition(" ")
    is_kept_out = line.priority is None or line.priority < 0
    return kind == "version" and matches(release, version.strip()) and not is_kept_out
