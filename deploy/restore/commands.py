"""What a run changed beside files, and the command that takes it back: listed, never run."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gpu_node.deploy.restore.records import RunRecord
from gpu_node.inventories.versions import numbers

# Of a kind of line: the command, by the words behind the kind, and whether the first of them is the
# account that runs it: root would follow what a user puts in the place of a folder, and run what a
# user installs. {run} is the folder of the run's backups.
_FIXED = {
    "copy": (True, "rm -r -- {0}"),
    "workspace": (True, "rsync -a -- {1}/ {0}/"),
    "module": (False, "dkms remove {0}/{1} -k {2}"),
    "persistence": (
        False,
        "systemctl --no-reload disable {0}; systemctl stop {0}; nvidia-smi -pm 0",
    ),
    "cmake": (
        False,
        "find {1} -lname '/opt/cmake-{0}/*' -delete; rm -r -- /opt/cmake-{0}; "
        "[ ! -d {run}{1} ] || cp -P -- {run}{1}/* {1}/",
    ),
}
_WHAT = {
    **{"copy": "copied", "workspace": "overwritten", "module": "built", "cmake": "installed"},
    "persistence": "enabled",
}


def _by(account: str, command: str) -> str:
    """Return a command for root that runs another one as an account, with its home."""
    return command if account == "root" else f"sudo -H -u {shlex.quote(account)} -- {command}"


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


def kinds_of(run: RunRecord) -> list[str]:
    """Return the kind of each thing beside files that a run changed: a new version is one."""
    things = {
        (kind, *(_package(kind, words)[:3] if kind in _BACK else words))
        for _, kind, *words in run.also
    }
    return [kind for kind, *_ in things]


def _package(kind: str, words: Sequence[str]) -> tuple[str, str, str, str]:
    """Return a package's account, its environment (empty: the system), its name and version."""
    if kind not in ("wheels", "base-wheels"):
        name, version = words
        return "root", "", name, version
    account, where, metadata = words
    name, _, version = metadata.removesuffix(".dist-info").partition("-")
    return account, where, name.replace("_", "-"), version


def _packages(run: RunRecord) -> Iterator[str]:
    # Of each package the versions that went, and those that came.
    found: dict[tuple[str, str, str, str], tuple[list[str], list[str]]] = {}
    for sign, kind, *words in run.also:
        if kind in _BACK:
            account, where, name, version = _package(kind, words)
            found.setdefault((kind, account, where, name), ([], []))[sign == "+"].append(version)
    for (kind, account, where, name), versions in found.items():
        gone, new = map(", ".join, versions)
        change = (
            f"{gone} became {new}" if gone and new else f"{new} is new" if new else f"{gone} went"
        )
        command = _BACK[kind](where, name, *versions)
        yield f"{where}{': ' if where else ''}{name} {change}: {_by(account, command)}"


def _deb(_: str, name: str, gone: list[str], new: list[str]) -> str:
    if not gone:
        return f"apt-get remove -- {shlex.quote(name)}"
    return f"apt-get install --allow-downgrades -- {shlex.quote(f'{name}={gone[0]}')}"


def _rpm(_: str, name: str, gone: list[str], new: list[str]) -> str:
    if name == "gpg-pubkey":  # a key: yum knows no package of that name
        return f"rpm -e -- {shlex.join(f'{name}-{each}' for each in gone or new)}"
    # Several versions of a kernel's package are installed side by side.
    verb = "install" if gone else "remove"
    if gone and new:  # one of several versions can come back
        gone = [max(gone, key=numbers)]
        verb = "downgrade" if numbers(gone[0]) < numbers(new[0]) else "install"
    return f"yum {verb} -- {shlex.join(f'{name}-{each}' for each in gone or new)}"


def _wheel(where: str, name: str, gone: list[str], new: list[str], base: bool = False) -> str:
    # -I: no file of the folder in which it is called is imported.
    prefix = shlex.quote(where)
    # The pip of its base, where it has none itself.
    pip = f"python3 -I -m pip --python {prefix}" if base else f"{prefix}/bin/python -I -m pip"
    if not gone:
        return f"{pip} uninstall -- {shlex.quote(name)}"
    return f"{pip} install --no-deps -- {shlex.quote(f'{name}=={gone[0]}')}"


_BACK: dict[str, Callable[..., str]]
_BACK = {"deb": _deb, "rpm": _rpm, "wheels": _wheel, "base-wheels": partial(_wheel, base=True)}
