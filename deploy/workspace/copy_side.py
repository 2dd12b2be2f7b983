"""The two sides of a copy: root's rsync uses no folder that another user may change."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.training_user import AS_USER
from gpu_node.inventories.connection.sudo import SUDO

_ROOT = ("", "root")


def sender(account: str, path: str, argv: list[str], excludes: Sequence[str] = ()) -> list[str]:
    """Return `argv`, an rsync that sends a tree from here, in a form that is safe for an account.

    `account` is empty for the SSH user, who may be root.
    """
    if account not in _ROOT:
        return argv
    return [*_side("send", path, "no", excludes), *argv[1:]]


def local_sender(path: str, argv: list[str], excludes: Sequence[str] = ()) -> list[str]:
    """Return `argv`, an rsync that sends a tree from the controller, in a form safe for root."""
    if os.geteuid() != 0:
        return argv
    return [*_side("send", path, "no", excludes, "run the deploy"), *argv[1:]]


def receiver(
    node: str,
    data: Mapping[str, Any],
    account: str,
    path: str,
    excludes: Sequence[str] = (),
) -> list[str]:
    """Return the option that runs rsync's other end as the owner of the tree at `path` there.

    `data` is of the receiving host `node`; `account` is the one of the login, or empty.
    """
    sudo = data.get("_sudo") is True and account in ("", data.get("ssh_user") or "")
    if account not in _ROOT and not sudo:
        return []
    may: Literal["yes", "no", "asks"]
    may = "no" if not sudo else "asks" if SUDO.asks(node) else "yes"
    return [f"--rsync-path={shlex.join(_side('receive', path, may, excludes))}"]


def _side(
    side: Literal["send", "receive"],
    path: str,
    sudo: Literal["yes", "no", "asks"],
    excludes: Sequence[str],
    instead: str = "train (launcher_user)",
) -> list[str]:
    given = {
        "path": path,
        "side": side,
        "sudo": sudo,
        "instead": instead,
        "as_user": AS_USER,
        "excludes": "\n".join(f"--exclude={exclude}" for exclude in excludes),
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
    scripts = "".join(text(each) for each in ("writers", "copier", "copy_side"))
    return ["sh", "-c", _short(f"{head}{scripts}"), "rsync"]


def _short(script: str) -> str:
    """Return sh without its comments: it is an argument, quoted several times."""
    lines = (line for line in lines_of(script) if not line.startswith("#"))
    return "\n".join(lines)
