"""Upgrade: the package of the driver's library, and the version that an upgrade would install."""

from gpu_node.facts.packages.locks import name_and_version
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.globs import matches_any
from gpu_node.facts.probe.limited import LIMITED
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.shell import assigned, shell

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
    prevent it. `unknown`:
    why the candidate could not be determined, such as missing package lists.
    """

    package: str = ""
    version: str = ""
    manager: str = ""
    candidate: str = ""
    held: tuple[str, ...] = ()
    unknown: str = ""


def parse_upgrade(text: str) -> Upgrade:
    """Parse `package NAME VERSION`, `candidate MANAGER VERSION`, `held NAME` and `unknown WHY`.

    `lock LINE` is a line of versionlock about any package.
    """
    rows = [line.split(" ") for line in lines_of(text)]
    values: dict[str, object] = {"held": [row[1] for row in rows if row[0] == "held"]}
    for row in rows:
        if row[0] == "package":
            values |= {"package": checked.package(row[1]), "version": _plain(row[2])}
        elif row[0] == "candidate":
            values |= {"manager": row[1], "candidate": _plain(row[2])}
        elif row[0] == "unknown":
            values["unknown"] = " ".join(row[1:])
    if values.get("candidate") == values.get("version"):
        values["candidate"] = ""
    upgrade = Upgrade.model_validate(values)
    locks = [" ".join(row[1:]) for row in rows if row[0] == "lock"]
    return upgrade.model_copy(
        update={"held": (*upgrade.held, *(lock for lock in locks if _prevents(lock, upgrade)))}
    )


def _prevents(lock: str, upgrade: Upgrade) -> bool:
    """Whether a line of versionlock prevents the upgrade to the candidate; `!` excludes one."""
    name, version = name_and_version(lock.strip().removeprefix("!"))
    allowed = matches_any(upgrade.candidate, (version or "*", f"{version}*"))
    return matches_any(upgrade.package, (name,)) and allowed == lock.startswith("!")


def _plain(version: str) -> str:
    """Return a version without its epoch: 3:535.154.05-1 is 535.154.05-1."""
    return checked.version(version).rpartition(":")[2]
