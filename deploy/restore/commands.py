"""What a run changed beside files, and the command that takes it back: listed, never run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_node.deploy.restore.records import RunRecord

# Of a kind of line: the command, by the words behind the kind, and whether the first of them is the
# account that runs it: root would follow what a user puts in the place of a folder, and run what a
# user installs. {run} is the folder of the run's backups.
_FIXED = {
    "copy": (True, "rm -r -- {0}"),
    "workspace": (True, "rsync -a -- {1}/ {0}/"),
    "module": (False, "dkms remove {0}/{1} -k {2}"),
    "cmake": (
        False,
        "find {1} -lname '/opt/cmake-{0}/*' -delete; rm -r -- /opt/cmake-{0}; "
        "cp -P -- {run}{1}/* {1}/",
    ),
}
_WHAT = {"copy": "copied", "workspace": "overwritten", "module": "built", "cmake": "installed"}


def _by(account: str, command: str) -> str:
    """Return a command for root that runs another one as an account, with its home."""
    return command if account == "root" else f"sudo -H -u {shlex.quote(account)} -- {command}"


@dataclass
class _Versions:
    """The versions of one package that went, and those that came."""

    gone: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def left_alone(runs: Sequence[RunRecord], top: str) -> Iterator[str]:
    """Yield `what it is: command` for what is not put back; `top` is the folder of all runs."""
    for run in runs:
        yield from _packages(run)
        for _, kind, *words in run.also:
            if kind in _FIXED:
                has_account, form = _FIXED[kind]
                account, *names = words if has_account else ("root", *words)
                command = form.format(*map(shlex.quote, names), run=f"{top}/{run.name}")
                yield f"{_WHAT[kind]}: {' '.join(names)}: {_by(account, command)}"


def _packages(run: RunRecord) -> Iterator[str]:
    found: dict[_Package, _Versions] = {}
    for sign, kind, *words in run.also:
        if kind in _BACK:
            package, version = _package(kind, words)
            versions = found.setdefault(package, _Versions())
            (versions.new if sign == "+" else versions.gone).append(version)
    for package, versions in found.items():
        gone, new = ", ".join(versions.gone), ", ".join(versions.new)
        change = (
            f"{gone} became {new}" if gone and new else f"{new} is new" if new else f"{gone} went"
        )
        where = f"{package.where}: " if package.where else ""
        command = _BACK[package.kind](package, versions)
        yield f"{where}{package.name} {change}: {_by(package.account, command)}"


@dataclass(frozen=True)
class _Package:
    """A package: of the system, or of a Python environment (`where`) of an account."""

    kind: str
    name: str
    account: str = "root"
    where: str = ""


def _package(kind: str, words: Sequence[str]) -> tuple[_Package, str]:
    """Return a package, and its version."""
    if kind == "wheels":
        account, where, metadata = words
        name, _, version = metadata.removesuffix(".dist-info").partition("-")
        return _Package(kind, name.replace("_", "-"), account, where), version
    name, version = words
    return _Package(kind, name), version


def _deb(package: _Package, versions: _Versions) -> str:
    if not versions.gone:
        return f"apt-get remove -- {shlex.quote(package.name)}"
    wanted = shlex.quote(f"{package.name}={versions.gone[0]}")
    return f"apt-get install --allow-downgrades -- {wanted}"


def _rpm(package: _Package, versions: _Versions) -> str:
    # Several versions of a kernel's package are installed side by side.
    new = [shlex.quote(f"{package.name}-{each}") for each in versions.new]
    if not versions.gone:
        return f"yum remove -- {' '.join(new)}"
    verb = "downgrade" if new else "install"
    gone = " ".join(shlex.quote(f"{package.name}-{each}") for each in versions.gone)
    return f"yum {verb} -- {gone}"


def _wheel(package: _Package, versions: _Versions) -> str:
    # -I: no file of the folder in which it is called is imported.
    pip = f"{shlex.quote(package.where)}/bin/python -I -m pip"
    if not versions.gone:
        return f"{pip} uninstall -- {shlex.quote(package.name)}"
    return f"{pip} install --no-deps -- {shlex.quote(f'{package.name}=={versions.gone[0]}')}"


_BACK = {"deb": _deb, "rpm": _rpm, "wheels": _wheel}
