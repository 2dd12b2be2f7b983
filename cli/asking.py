"""Asks the nodes of an inventory; adds the next step to the error of a refused host key."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.areas import AREAS
from gpu_node.facts.ask.gather import Answer, gather, limited_data, named_groups
from gpu_node.facts.ask.via import FILES, SSH
from gpu_node.facts.probe.peers import SSH_PORT, peers_of
from gpu_node.inventories.connection.refused_keys import explained, look, refusal
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import InventoryError, shown, worded
from gpu_node.inventories.interrupt import at_once
from gpu_node.inventories.regular_file import why_no_folder, why_none
from gpu_node.inventories.value_places import ValuePlaces
from gpu_node.inventories.wanted import NodeWanted

if TYPE_CHECKING:
    from pyinfra.api import Host
    from rich.status import Status


def ask(
    inventory: str,
    limit: Iterable[str] = (),
    deep: bool = False,
    data: Mapping[str, object] | None = None,
    only: tuple[str, ...] = (),
    again: str = "run it again; --limit selects the nodes that have the same password",
    ports: bool = False,
) -> dict[str, Seen]:
    """Probe the nodes of an inventory, once; every failure of a node stays with it.

    `data` has values in place of the inventory's, `only` the beginnings of the names of the
    sections to ask; without it all are. `again` is the next step after a wrong password of sudo.
    With `ports` the nodes that answer try connections to each other.
    """
    stage = f"Reading the nodes of {inventory}"
    type_sudo_password(inventory, limit)
    with at_once(), _working(stage) as status:
        named = partial(_name, status, stage)
        found = gather(
            inventory,
            limit,
            deep,
            data or {},
            meanwhile=_importing(),
            waiting=named,
            only=only,
            then=_try_ports if ports else None,
        )
    if SUDO.wrong is not None:
        node, words = SUDO.wrong
        problem = worded(f"a password that is wrong on {node}", words, "the SSH user's", again)
        raise click.ClickException(f"--ask-sudo-password: {problem}")
    return {name: _seen(inventory, name, answer) for name, answer in found.items()}


def type_sudo_password(inventory: str, limit: Iterable[str]) -> None:
    """Ask for sudo's password if that is still to be done; a wrong inventory is refused first."""
    if SUDO.is_awaited:
        limited_data(inventory, limit)
        SUDO.be_typed()


def _name(status: Status | None, stage: str, left: Sequence[str]) -> None:
    """Name the nodes that have not answered beside a stage that is shown."""
    if status is not None and left:
        from gpu_node.cli.console import stage_text

        status.update(stage_text(f"{stage}: no answer yet from {ranges(left)}"))


def _working(stage: str) -> AbstractContextManager[Status | None]:
    """Show a stage of the work; where it is not shown, rich is imported with the report."""
    if not sys.stderr.isatty():
        return nullcontext(None)
    from gpu_node.cli.console import working

    return working(stage)


def _importing() -> Iterator[None]:
    """Import the areas, and what judges and reports: a third of all imports, in short parts."""
    areas = (f"gpu_node.facts.{area}" for area in AREAS)
    engine = (f"gpu_node.drift.engine.{name}" for name in ("finding", "rule", "registry", "check"))
    for name in (*areas, "gpu_node.facts.node", *engine, "gpu_node.cli.reporting"):
        import_module(name)
        yield


def _try_ports(answers: dict[Host, Answer]) -> dict[Host, Answer]:
    from gpu_node.drift.ports.ends import ends
    from gpu_node.facts.ports.trying import with_ports

    return with_ports(answers, ends({host.name: each for host, each in answers.items()}))


def ask_via(
    via: str,
    inventory: str,
    limit: Iterable[str],
    deep: bool = False,
    data: Mapping[str, object] | None = None,
) -> dict[str, Seen]:
    """Probe the nodes of an inventory, once, by ClusterShell or Slurm; as `ask` otherwise."""
    from gpu_node.facts.ask.via import engines

    try:
        with at_once(), _working(f"Reading the nodes of {inventory}"):
            found = engines.gather_via(via, inventory, limit, deep, data)
    except engines.NotANode as error:
        why = "a host that is not reached by SSH"
        problem = worded(shown(str(error)), why, "nodes that sshd answers on", "--limit")
        raise click.UsageError(f"--via {via}: {problem}") from error
    except engines.NoClusterShell as error:
        problem = worded(str(error), "", "the library, and ssh", error.then)
        raise click.ClickException(f"--via {via}: {problem}") from error
    except engines.NoSlurm as error:
        then = "run it where srun works, such as a login node of the cluster"
        problem = worded(str(error), "", "Slurm's commands, and a cluster that answers", then)
        raise click.ClickException(f"--via {via}: {problem}") from error
    return {name: _seen(inventory, name, answer, via) for name, answer in found.items()}


def nodes_of(inventory: str, limit: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the nodes that a report is about; contacts none."""
    return tuple(limited_data(inventory, limit))


def files_of(inventory: str, limit: Iterable[str]) -> Iterator[str]:
    """Yield the files that an inventory may be read from, and those that its data names."""
    yield inventory
    yield from (str(Path(inventory).with_suffix(suffix)) for suffix in (".py", ".yml", ".yaml"))
    for data in limited_data(inventory, limit).values():
        yield from (value for value in data.values() if isinstance(value, str) and os.sep in value)


def wants(
    inventory: str, limit: Iterable[str], key: str, values: Mapping[str, object] | None = None
) -> bool:
    """Whether a key is true of a node; `values` are in place of the inventory's; contacts none."""
    hosts = limited_data(inventory, limit).values()
    return any({**data, **(values or {})}.get(key) is True for data in hosts)


def jobs_log_in(inventory: str, limit: Iterable[str]) -> bool:
    """Whether Slurm jobs try logins between any of the nodes; contacts none."""
    from gpu_node.facts.ask.via.question import is_of_caller
    from gpu_node.facts.probe.request import request_of

    hosts = limited_data(inventory, limit).values()
    return any(is_of_caller(request_of(host)) for host in hosts if host.get("ssh_mesh") is True)


def offline_hosts(inventory: str, limit: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the inventory's data about nodes with scripts; refuse a name that no file can have."""
    from gpu_node.facts.ask.offline import is_usable

    hosts = limited_data(inventory, limit)
    if wrong := [name for name in hosts if not is_usable(name)]:
        raise click.ClickException("\n".join(_unusable(inventory, name) for name in wrong))
    return hosts


def _unusable(inventory: str, name: str) -> str:
    """Return the problem of a node's name; a name of pyinfra's connectors begins with @."""
    from gpu_node.facts.ask.offline import LONGEST_NAME

    why, then = "a file is named after the node", "rename it in the inventory"
    if name.startswith("@"):
        limit = "" if name == inventory else f" --limit {shlex.quote(name)}"
        why, then = "its report needs no script", f"gpu-node drift {shlex.quote(inventory)}{limit}"
    allowed = f"letters, digits, ., _ and -, at most {LONGEST_NAME} of them, and neither . nor .."
    return f"NODE: {worded(shown(name), why, allowed, then)}"


def read_answers(inventory: str, limit: Iterable[str], folder: str) -> dict[str, Seen]:
    """Return what the answers in a folder say about the nodes of an inventory; contacts none."""
    if why := why_no_folder(folder):
        allowed = "a folder with NODE.txt of each node"
        problem = worded(shown(folder), why, allowed, "gpu-node probe")
        raise click.UsageError(f"--answers: {problem}")
    from gpu_node.facts.ask.offline import answers

    with at_once(), _working(f"Reading the answers in {folder}"):
        hosts = offline_hosts(inventory, limit)
        found = answers(Path(folder), hosts, version("gpu-node"), why_none)
    return {name: _seen(inventory, name, answer, FILES) for name, answer in found.items()}


def _seen(inventory: str, name: str, answer: Answer, via: str = SSH) -> Seen:
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError as error:
        _, groups = named_groups(inventory).get(name, ({}, []))
        lines = ValuePlaces(inventory).explained(error, name, groups, answer.data)
        raise click.ClickException("\n".join(lines)) from error
    return Seen(
        wanted,
        answer.state,
        _with_next_step(inventory, name, answer),
        answer.reached,
        peers_of(answer.data),
        answer.data.get("_sudo") is True and answer.slurm_job is None,
        answer.data.get("allow_deletions") is True,
        answer.slurm_job,
        via,
    )


def _with_next_step(inventory: str, name: str, answer: Answer) -> str | None:
    """Add the next step to the error of `--via`; that of our own connection has it."""
    refused = refusal(answer.cause)
    if answer.error is None or refused is None:
        then = look(
            answer.cause and answer.cause.__context__, answer.data.get("ssh_port") or SSH_PORT
        )
        return f"{answer.error}; next: {then}" if answer.error and then else answer.error
    return explained(answer.error, refused, inventory, name)
