"""The POSIX sh scripts that change a node, each with its variables set in front of it."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from facts import package_locks
from facts.gpu_holders import Step, harmless
from facts.mesh import AS_USER
from facts.package_sources import HELD as HELD

FOLDER = Path(__file__).parent


# On the node; /run is emptied at boot.
LOCK = "/run/gpu-node.lock"
NOTE = package_locks.NOTE
# How long a step waits for another program's use of the package database, and for another run.
PATIENCE_SECONDS, RUN_SECONDS = 300, 600
# These work on files that a second run would work on, too.
_ALONE = (
    *("replace", "replace_as", "cmake", "wheels", "packages_rpm", "packages_deb", "packages_pip"),
    *("driver_packages_rpm", "driver_packages_deb", "dkms", "module", "nouveau", "reboot"),
    *("driver_install_deb", "driver_install_rpm", "rsync_deb", "rsync_rpm"),
    *("environment_room", "environment_whole", "hold_kernel"),
)
# These would disturb a running job, by what they do; they take the variable `allow`.
_DISTURBS: Mapping[Step, tuple[str, ...]] = {
    "libraries": (
        *("wheels", "packages_rpm", "packages_deb", "packages_pip"),
        *("driver_install_deb", "driver_install_rpm", "idle"),
    ),
    "segments": ("segments",),
    "workspace": ("workspace",),
    "reload": ("module", "nouveau"),
    "reboot": ("reboot",),
}
_HARMFUL = (*_DISTURBS["libraries"], *_DISTURBS["reload"], *_DISTURBS["reboot"])
# These make a folder to work in, or get a file from the controller (the variable `pushed`).
_UNTIDY = ("cmake", "wheels", "packages_rpm", "packages_deb", "packages_pip")
# These hold packages at a version; they take the variable `run`.
_HOLDING = ("packages_rpm", "packages_deb", "driver_install_deb", "driver_install_rpm")
# These install packages of the system, or finish that.
_PACKAGES = (
    *_HOLDING,
    *("driver_packages_rpm", "driver_packages_deb", "rsync_deb", "rsync_rpm", "dkms"),
)
# These reload systemd, or install packages whose scripts do, which takes the GPUs from running
# containers; they take the variable `allow_reload`. Packages without a unit reload nothing: NCCL's
# and the plugins of yum and dnf (packages_rpm), and the headers of a kernel.
_RELOADS = (
    "persistence",  # its units are written all the same, and the reload is left out
    *("driver_install_deb", "driver_install_rpm"),  # nvidia-persistenced and others: refused
    *("driver_packages_deb", "driver_packages_rpm"),  # dkms: refused
    *("rsync_deb", "rsync_rpm"),  # rsync, on CentOS 7 rsyncd: refused
    "packages_deb",  # what another program left half configured is finished first: refused
    "dkms",  # the same, at its end: left out
)
# What stands before a script, in this order: the first sees to it that nothing is left behind.
_FIRST = {
    "clear_away": _UNTIDY,
    "lock": _ALONE,
    "in_use": (*_HARMFUL, "workspace", "segments"),
    "cpu_jobs": ("reboot",),
    "leftovers": _UNTIDY,
    "containers": _RELOADS,
    "package_locks": _PACKAGES,
    "holds": _HOLDING,
    "another_driver": ("driver_install_deb", "driver_install_rpm"),
    "transaction_deb": ("driver_install_deb", "rsync_deb"),
    "transaction_rpm": ("driver_install_rpm", "rsync_rpm"),
}


def text(name: str) -> str:
    """Return what `name`.sh says."""
    return (FOLDER / f"{name}.sh").read_text(encoding="utf-8")


class Script(StringCommand):
    """A script of ours as a command: what it prints is shown at once, such as what it waits for."""

    @override
    def execute(
        self, state: State, host: Host, connector_arguments: Any
    ) -> tuple[bool, CommandOutput]:
        done, output = self.run(state, host, connector_arguments)
        # pyinfra prints the output of a command that failed: it has been shown.
        return done, output if done else CommandOutput([])

    def run(self, state: State, host: Host, given: Any) -> tuple[bool, CommandOutput]:
        """Run it on a host; return whether it ended well, and what it printed."""
        arguments = {**given, **self.connector_arguments}
        return host.run_shell_command(
            self, print_output=True, print_input=state.print_input, **arguments
        )


def origin() -> str:
    """Return who runs this, and where: another run's message names it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without an account, as in a container
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (pid {os.getpid()} there)"


def script(name: str, stdin: str | None = None, **variables: str) -> Script:
    """Return `name`.sh as one command; `variables` are quoted, `stdin` is a line it reads."""
    more = {}
    if name in _ALONE:
        more = {"lock": LOCK, "origin": origin(), "patience_for_runs": str(RUN_SECONDS)}
    more |= {"note": NOTE} if name in _HOLDING else {}
    if name in _PACKAGES:
        more |= {"holding": HELD, "patience": str(PATIENCE_SECONDS)}
    if name in _FIRST["in_use"]:
        more["holders"] = "\n".join(harmless_holders(name))
    first = [each for each, names in _FIRST.items() if name in names]
    body = "\n".join(
        [*_assignments({**variables, **more}), *("\n" + text(each) for each in first), text(name)]
    )
    return Script(body) if stdin is None else Script(body, _stdin=[stdin])


def harmless_holders(name: str) -> tuple[str, ...]:
    """Return the paths of the programs that may hold a GPU while `name`.sh runs."""
    return harmless(next(step for step, names in _DISTURBS.items() if name in names))


def as_user(user: str, name: str, head: str = "", **variables: str) -> StringCommand:
    """Return `name`.sh as a command that runs as another user, with `head`, sh, in front."""
    return script("as_user", user=user, as_user=AS_USER, run=as_run(name, head, **variables))


def as_run(name: str, head: str = "", **variables: str) -> str:
    """Return `name`.sh with its variables, and nothing in front that only root may do."""
    return "".join([head, *(f"{each}\n" for each in _assignments(variables)), text(name)])


def _assignments(variables: Mapping[str, str]) -> list[str]:
    return [f"{key}={shlex.quote(value)}" for key, value in variables.items()]
