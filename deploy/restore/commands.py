"""What a run changed beside files, and the command that takes it back: listed, never run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_node.deploy.restore.records import RunRecord

# Words behind the kind of a line, and its command: {run} is the folder of the run's backups.
_FIXED = {
    ("copy", 1): "rm -r {0}",
    ("workspace", 2): "rsync -a {1}/ {0}/",
    ("module", 3): "dkms remove {0}/{1} -k {2}",
    ("cmake", 2): "find {1} -lname '/opt/cmake-{0}/*' -delete; rm -r /opt/cmake-{0}; "
    "cp -P {run}{1}/* {1}/",
}
_WHAT = {"copy": "copied", "workspace": "overwritten", "module": "built", "cmake": "installed"}


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
            if (kind, len(words)) in _FIXED:
                quoted = map(shlex.quote, words)
                command = _FIXED[kind, len(words)].format(*quoted, run=f"{top}/{run.name}")
                yield f"{_WHAT[kind]}: {' '.join(words)}: {command}"


def _packages(run: RunRecord) -> Iterator[str]:
    found: dict[tuple[str, str, str], _Versions] = {}
    for sign, kind, *words in run.also:
        where, name, version = _package(kind, words)
        if name:
            versions = found.setdefault((kind, where, name), _Versions())
            (versions.new if sign == "+" else versions.gone).append(version)
    for (kind, where, name), versions in found.items():
        gone, new = ", ".join(versions.gone), ", ".join(versions.new)
        change = (
            f"{gone} became {new}" if gone and new else f"{new} is new" if new else f"{gone} went"
        )
        command = _BACK[kind](where, name, versions)
        yield f"{where + ': ' if where else ''}{name} {change}: {command}"


def _package(kind: str, words: Sequence[str]) -> tuple[str, str, str]:
    """Return where a package is (a Python environment), name and version; empty: no package."""
    if kind in ("deb", "rpm") and len(words) == 2:
        return "", words[0], words[1]
    if kind == "wheel" and len(words) == 2:
        name, _, version = words[1].removesuffix(".dist-info").partition("-")
        return words[0], name.replace("_", "-"), version
    return "", "", ""


def _deb(_: str, name: str, versions: _Versions) -> str:
    if not versions.gone:
        return f"apt-get remove {shlex.quote(name)}"
    return f"apt-get install --allow-downgrades {shlex.quote(f'{name}={versions.gone[0]}')}"


def _rpm(_: str, name: str, versions: _Versions) -> str:
    # Several versions of a kernel's package are installed side by side.
    new = [shlex.quote(f"{name}-{each}") for each in versions.new]
    if not versions.gone:
        return f"yum remove {' '.join(new)}"
    verb = "downgrade" if new else "install"
    return f"yum {verb} {' '.join(shlex.quote(f'{name}-{each}') for each in versions.gone)}"


def _wheel(where: str, name: str, versions: _Versions) -> str:
    pip = f"{shlex.quote(where)}/bin/python -m pip"
    if not versions.gone:
        return f"{pip} uninstall {shlex.quote(name)}"
    return f"{pip} install --no-deps {shlex.quote(f'{name}=={versions.gone[0]}')}"


_BACK = {"deb": _deb, "rpm": _rpm, "wheel": _wheel}
