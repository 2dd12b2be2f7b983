"""Upgrade: the package of the driver's library, and the version that an upgrade would install."""

from gpu_node.facts.globs import matches_any
from gpu_node.facts.packages.locks import name_and_version
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import by_word
from gpu_node.facts.probe.shell import LIMITED, assigned, shell

# Only root has dnf's copy of the repositories.
_COMMAND = (
    LIMITED
    + shell("driver/upgrades")
    # No other lock of that file is of interest: libnccl's are read with its packages.
    + assigned(note="", repositories="")
    + shell("packages/lock_files")
    + shell("driver/upgrade_locks")
)
SECTIONS = (Section("driver.upgrade", _COMMAND, seconds=30, root=True, light=True),)


class Upgrade(State):
    """The package that has the driver's library ("": none has), and its version without an epoch.

    `candidate` is the version that the next upgrade by `manager` installs in its place ("": none is
    known, or that is the installed one), `held` are packages on hold, or lines of versionlock, that
    prevent it, `parts` the packages of apt that have the library's version and are not on hold.
    `unknown`: why the candidate could not be determined, such as missing package lists.
    """

    package: str = ""
    version: str = ""
    manager: str = ""
    candidate: str = ""
    held: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    unknown: str = ""


def parse_upgrade(text: str) -> Upgrade:
    """Parse `package NAME VERSION`, `candidate MANAGER VERSION` and `unknown WHY`.

    `held NAME` and `part NAME` are packages; `lock LINE` is a line of versionlock about any one.
    """
    rows = by_word(text)
    values: dict[str, object] = {"parts": [*map(checked.package, rows["part"])]}
    for name, version in (row.split(" ") for row in rows["package"]):
        values |= {"package": checked.package(name), "version": _plain(version)}
    for manager, version in (row.split(" ") for row in rows["candidate"]):
        values |= {"manager": manager, "candidate": _plain(version)}
    if values.get("candidate") == values.get("version"):
        values["candidate"] = ""
    upgrade = Upgrade.model_validate({**values, "unknown": "".join(rows["unknown"][-1:])})
    locks = (lock for lock in rows["lock"] if _prevents(lock, upgrade))
    return upgrade.model_copy(update={"held": (*rows["held"], *locks)})


def _prevents(lock: str, upgrade: Upgrade) -> bool:
    """Whether a line of versionlock prevents the upgrade to the candidate; `!` excludes one."""
    name, version = name_and_version(lock.strip().removeprefix("!"))
    allowed = matches_any(upgrade.candidate, (version or "*", f"{version}*"))
    return matches_any(upgrade.package, (name,)) and allowed == lock.startswith("!")


def _plain(version: str) -> str:
    """Return a version without its epoch: 3:535.154.05-1 is 535.154.05-1."""
    return checked.version(version).rpartition(":")[2]
