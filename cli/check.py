"""`gpu-node check`: the inventory alone, without asking a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.plurals import counted

if TYPE_CHECKING:
    from gpu_node.inventories.fields.switched import Off

# Of the address of a node in a cluster of several.
_ITSELF = "each machine means itself by it, so no other node can connect to this one"
_SHOWS = "write the address of the node: there, ip address shows it"

# Of a mesh whose nodes have different training users.
_NAMELESS = "that of ssh's configuration"
_OTHER_USER = "no key is let in as another user, so no login works between them"
_ONE_USER = "give all one user that each node has, such as launcher: {{user: {}}}"


@click.command(short_help="Check INVENTORY alone; contacts no node.")
@click.argument("inventory", callback=words.inventory_file, shell_complete=completion.files)
def check(inventory: str) -> None:
    """Check INVENTORY alone, and print what it names: nodes and groups. Contacts no node.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Lists all errors: file,
    line, key, what is found, what is allowed, and what to write. Warns of an address by which each
    machine means itself, in a cluster of several nodes, of a mesh whose nodes have different
    training users, of groups without hosts, of a GPU model that no known name has, of keys without
    effect, of variables that belong to one job, of a proxy on the node itself, of checks that are
    on again because the last day of their entry is over, and of host keys that are not checked.

    \b
    Exit status:  0 no error   1 an error
    Examples:     gpu-node check cluster/site.yml
                  gpu-node check inventories/lab.py
    """
    with loading():
        from pyinfra.api.exceptions import PyinfraError

        from gpu_node.drift.impossible import doubtful, impossible
        from gpu_node.drift.ranges import ranges
        from gpu_node.facts.ask.gather import named_groups
        from gpu_node.facts.probe.request import request_of
        from gpu_node.inventories.checks.files import HOST_KEYS, PINNED, unreadable_of_data
        from gpu_node.inventories.connection.commands import password_shown
        from gpu_node.inventories.errors import InventoryError, dotted, shown, worded
        from gpu_node.inventories.fields.addresses import is_loopback
        from gpu_node.inventories.schema import shared
        from gpu_node.inventories.servers_csv import LOOPBACK
        from gpu_node.inventories.value_places import ValuePlaces
        from gpu_node.inventories.wanted import NodeWanted
    problems: list[str] = []
    ruled_out: dict[tuple[str, str], list[str]] = {}
    warnings: dict[str, None] = {}
    users: dict[str, list[str]] = {}
    has_effects: dict[str, bool] = {}
    try:
        hosts = named_groups(inventory)
    except (PyinfraError, OSError) as error:
        raise failure(error) from None
    places = ValuePlaces(inventory)
    for name, (data, groups) in hosts.items():
        try:
            wanted = NodeWanted.from_data(data)
            if wrong := password_shown(data):
                raise InventoryError([wrong], ["_sudo_password"])
            for problem in unreadable_of_data(data):
                place = places.of(name, groups, problem.path, data)
                problems.append(f"{place}: {name}: {dotted(problem.path)}: {problem}")
            key = "ssh_strict_host_key_checking"
            if (value := data.get(key, "yes")) != "yes":
                wrong = worded(shown(value), HOST_KEYS, "yes", PINNED)
                warnings[f"{places.of(name, groups, (key,), data)}: {key}: {wrong}"] = None
            for check, text in _over(wanted.checks or {}):
                warnings[f"{places.of(name, groups, ('checks', check), data)}: {text}"] = None
            if data.get("ssh_mesh"):
                users.setdefault(request_of(data).user, []).append(name)
            address = str(data.get("ssh_hostname") or name)
            if len(hosts) > 1 and (is_loopback(address) or LOOPBACK.fullmatch(address.lower())):
                wrong = worded(shown(address), _ITSELF, "one that other nodes reach", _SHOWS)
                place = places.of(name, groups, ("address",), data)
                warnings[f"{place}: {name}: address: {wrong}"] = None
            for problem, has_effect in doubtful(wanted):
                place = places.of(name, groups, problem.path, data)
                text = f"{place}: {dotted(problem.path)}: {problem}"
                has_effects[text] = has_effects.get(text, False) or has_effect
            for problem in impossible(wanted):
                place = places.of(name, groups, problem.path, data)
                text = f"{dotted(problem.path)}: {problem}"
                ruled_out.setdefault((place, text), []).append(name)
        except InventoryError as error:
            problems += places.explained(error, name, groups, data)
    warnings.update((text, None) for text, is_so in has_effects.items() if not is_so)
    logins = {
        name: (data.get("ssh_hostname") or name, data.get("ssh_port") or 22)
        for name, (data, _) in hosts.items()
    }
    for name, _, problem in shared(logins):
        problems.append(f"{inventory}: {name}: {dotted(problem.path)}: {problem}")
    problems += [f"{at}: {ranges(names)}: {text}" for (at, text), names in ruled_out.items()]
    if len(users) > 1:
        by = "; ".join(f"{user or _NAMELESS} on {ranges(names)}" for user, names in users.items())
        wrong = worded(
            f"training user {by}", _OTHER_USER, "", _ONE_USER.format(next(filter(None, users)))
        )
        warnings[f"{inventory}: ssh.mesh: {wrong}"] = None
    if problems:
        raise click.ClickException("\n".join(problems))
    of_file = ("all", Path(inventory).stem)
    own = dict.fromkeys(each for _, groups in hosts.values() for each in groups)
    named = [each for each in own if each not in of_file]
    for place, group in places.groups():
        if group not in own:
            then = f"write group: {group} at its hosts, or remove it"
            wrong = worded("a group without hosts", "what it wants is ignored", then=then)
            warnings[f"{place}: {wrong}"] = None
    found = f"{_named(list(hosts), 'node')}; {_named(named, 'group')}"
    ends = f"; no error, {counted(len(warnings), 'warning')}" if warnings else "; no error"
    click.echo(f"{inventory}: {found}{ends}")
    for text in warnings:
        click.echo(f"gpu-node: warning: {text}", err=True)


def _over(checks: Mapping[str, bool | Off]) -> Iterator[tuple[str, str]]:
    """Yield each check that was off until a day that is over, with a line about it."""
    for name, entry in checks.items():
        if not isinstance(entry, bool) and entry.is_over(date.today()):
            yield (
                name,
                (
                    f"checks.{name}: off until {entry.until} ({entry.reason}), so it is on again; "
                    "next: remove the entry, or write a later day"
                ),
            )


def _named(names: list[str], what: str) -> str:
    """Return how many there are, and which."""
    listed = f" ({', '.join(names)})" if names else ""
    return counted(len(names), what, none="no") + listed
