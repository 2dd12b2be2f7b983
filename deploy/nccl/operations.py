"""Operations on NCCL.

pyinfra's pip.packages trusts pip about installed versions, which is wrong here: all NCCL wheels own
the same file, so the right name may have the wrong library, or none. Its dnf.packages and
yum.packages ignore a pin if any version is installed (#1910), and dnf.rpm installs an upgrade
beside the old version; apt.packages does not check holds.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyinfra import host, logger
from pyinfra.api import (
    FunctionCommand,
    Host,
    State,
    operation,
)

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.engine.transactions import transaction
from gpu_node.deploy.files import downloads as controller
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.downloads import Upload
from gpu_node.deploy.files.operations import Commands
from gpu_node.deploy.nccl.environment_copy import copy, has_room, offer, partial_of
from gpu_node.deploy.nccl.pip import refuse_if_in_use
from gpu_node.drift.nccl.libnccl import BY_MANAGER, is_held, is_installed, own
from gpu_node.drift.nccl.package_locks import barriers, old_locks, passed_over, where
from gpu_node.facts.nccl.state import Environment, Nccl, NcclState, code
from gpu_node.facts.workspace.state import FolderFact
from gpu_node.inventories.escape import visible


@operation()
def wheels(
    environment: str,
    keep: str,
    remove: Sequence[str] = (),
    allow_disruption: bool = False,
    fetch: str = "node",
    shared: bool = False,
    hashes: str = "",
    insecure_index: bool = False,
) -> Commands:
    """
    Leave one NCCL wheel in a Python environment, its library equal to its RECORD.

    + environment: the folder, eg ``/opt/conda/envs/dis``
    + keep: as a requirement of pip, eg ``nvidia-nccl-cu12==2.18.1``
    + remove: names of the wheels to remove, eg ``nvidia-nccl-cu11``
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + fetch: ``node`` (its pip downloads), or ``controller`` for nodes without internet
    + shared: other nodes may have the folder, too: they are asked whether a process uses a GPU
    + hashes: the wheel with its hashes, as a line of pip's requirements; empty: any
    + insecure_index: even where pip is set to a server that is not proved (http, trusted-host)
    """
    fact = host.get_fact(Nccl, environments=environment, deep=True)
    there = fact.get("environments", {}).get(environment)
    if _is_whole(there, keep):
        host.noop(f"{environment} has {keep}, whole")
        return
    if shared and not allow_disruption:
        yield FunctionCommand(refuse_if_in_use, [environment], {})
    put = partial(
        script,
        "wheels",
        prefix=environment,
        keep=keep,
        remove=" ".join(remove),
        hashes=hashes,
        insecure="yes" if insecure_index else "no",
        allow="yes" if allow_disruption else "no",
        backups=replacement.backups(),
    )
    if fetch == "controller":
        python, platform = ((there or {}).get(key) or "" for key in ("python", "platform"))
        kept = controller.cache() / controller.wheel_name(keep, python, platform)
        yield FunctionCommand(
            controller.wheel,
            [keep, python, platform, str(kept)],
            {"hashes": hashes, "insecure_index": insecure_index},
        )
        yield Upload(kept, put)
    else:
        yield put()


@operation()
def environment(
    path: str,
    source: str,
    peer: Mapping[str, Any],
    version: str = "",
    machine: str = "",
    trains: str = "",
) -> Commands:
    """
    Copy a Python environment that is missing from another node, to the same path.

    It appears when it is complete; if its Python does not run on this node, it is removed.

    + path: the folder, eg ``/opt/conda/envs/dis``
    + source: the node that has it
    + peer: this node's name, address and port, as the source reaches it
    + version: of the source's rsync
    + machine: what its programs run on, as ``uname -m`` prints it; empty: unknown
    + trains: the user who copies and receives it, if not the SSH user
    """
    if host.get_fact(FolderFact, path=path)["exists"]:
        host.noop(f"{path} is there")
        return
    partial = partial_of(path)
    yield FunctionCommand(has_room, [source, path], {})
    yield script("environment_room", path=path, partial=partial, machine=machine, trains=trains)
    yield FunctionCommand(copy, [source, path, version, dict(peer)], {})
    yield script("environment_whole", path=path, partial=partial, backups=replacement.backups())
    yield FunctionCommand(offer, [source, path], {})


@operation()
def packages(
    version: str,
    manager: str,
    url: str = "",
    key: str = "",
    allow_disruption: bool = False,
    override_locks: bool = False,
) -> Commands:
    """
    Leave the system's libnccl packages at exactly one version, in one transaction, and held.

    + version: with its revision, eg ``2.18.1-1+cuda12.1``
    + manager: ``apt-get``, ``dnf`` or ``yum``
    + url: of a repository that is used only for this; empty: those of the system
    + key: the text of the public key that signs it, or ``unsigned``
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + override_locks: even against an administrator's lock, exclude= or pin
    """
    fact: dict[str, Any] = host.get_fact(Nccl)
    state = NcclState.known({"environments": {}, "absent": (), **fact})
    names = BY_MANAGER[manager]
    if is_installed(state, names, version) and _is_held(state):
        host.noop(f"{', '.join(names)} {version} are installed and held")
        return
    # Read again: an administrator may have locked them since the plan was made.
    locks = barriers(state, version)
    if locks is None or (locks and not override_locks):
        reason = (
            None if locks is None else [f"{lock.names} {lock.does}: {lock.where}" for lock in locks]
        )
        yield FunctionCommand(refuse_locked, [version, reason], {})
        return
    given = {"names": " ".join(names), "version": version, "url": url, "key": key}
    given["allow"] = "yes" if allow_disruption else "no"
    given["override"] = "yes" if override_locks else "no"
    given |= {"run": replacement.run(), "backups": replacement.backups()}
    if manager == "apt-get":
        held = " ".join(each.name for each in own(state) if each.held)
        given["allow_reload"] = given["allow"]
        yield transaction("packages_deb", manager=manager, held=held, **given)
        return
    old = old_locks(state, version)
    given["unlock"] = "\n".join(each.text for each in old)
    given["lists"] = "\n".join(dict.fromkeys(each.file for each in old))
    given["excluded"] = "".join(f"; {where(each)}" for each in passed_over(state, version))
    yield transaction("packages_rpm", manager=manager, **given)


def refuse_locked(state: State, host: Host, version: str, locks: Sequence[str] | None) -> bool:
    """Report the locks that prevent the installation of libnccl; None: they cannot be read."""
    why = (
        "cannot determine what prevents it"
        if locks is None
        else f"an administrator's lock: {'; '.join(locks)}: remove it, or replace it: --data "
        "override_locks=true"
    )
    logger.error(f"{host.print_prefix}libnccl {version}: {visible(why)}; nothing was changed")
    return False


def _is_held(state: NcclState) -> bool:
    """Whether an update would not change the packages; an unreadable list holds nothing."""
    return all(is_held(package, state.locks or ()) for package in own(state))


def _is_whole(answer: object, keep: str) -> bool:
    """Whether only that wheel is installed, and the library matches its RECORD."""
    if answer is None:
        return False
    environment = Environment.model_validate(answer)
    name, _, version = keep.partition("==")
    file = environment.file
    return (
        file is not None
        and [(wheel.name, wheel.version, wheel.sha256, wheel.size) for wheel in environment.wheels]
        == [(name, version, file.sha256, file.size)]
        and file.version == code(version)
    )
