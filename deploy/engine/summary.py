"""What a run of pyinfra reports: what it repairs, and the problems after it, as `drift` does.

`gpu-node deploy` and `gpu-node onboard` report themselves: in their runs nothing is printed here.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click
from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli.cli import cli
from rich.console import Console, Group, RenderableType
from typing_extensions import override

from gpu_node.deploy.engine.planning import any_changes, judged, unread, wanted_of
from gpu_node.deploy.engine.run import NodeRun, run_of
from gpu_node.deploy.engine.scope import part_of
from gpu_node.drift.report import brief, table
from gpu_node.drift.report.formats import printed
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import peers_of
from gpu_node.inventories import interrupt

_NO_CONNECTION = "no connection; pyinfra's error is above"
_LEFT = "not proved: it left this run; its error is above"


def announce(state: State) -> None:
    """Print what the run repairs, once, when the nodes have answered; if nothing: all problems."""
    run = run_of(state)
    if run.is_announced or interrupt.is_silent():
        return
    run.is_announced = True
    before = _report(state, run.baseline.known())
    has_changes = any_changes(state)
    console = _console()
    whole = table.render(View(before), console.width, next_step=False)
    _print(brief.announcement(before) if has_changes else whole, console)
    if has_changes:
        state.add_callback_handler(_AtTheEnd())
    elif not any(finding.fixable for host in before.hosts.values() for finding in host.findings):
        click.echo(brief.unrepaired(before), err=True)
    click.echo(err=True)


class _AtTheEnd(BaseStateCallback):
    """Prints the problems that are left when pyinfra disconnects, below its results."""

    @staticmethod
    @override
    def host_disconnect(state: State, host: Host) -> None:
        run = run_of(state)
        has_begun = any(node.operation_began is not None for node in run.nodes.values())
        if has_begun and not run.is_summed_up:
            run.is_summed_up = True
            unplanned = unread(state)
            answers = {name: _answer(node, unplanned.get(name)) for name, node in run.nodes.items()}
            after, console = View(_report(state, answers), options=_options()), _console()
            whole = table.render(after, console.width, again=True)
            _print(Group(whole, table.answer(after, console.width)), console)


def _answer(node: NodeRun, unplanned: ProbeError | None) -> NodeState | ProbeError:
    """Return the state of a node after the changes, or why it is unknown."""
    if node.proved_by is not None:
        return node.proved_by
    if unplanned is not None:
        return unplanned
    return ProbeError(f"not proved: {node.out}" if node.out else _LEFT)


def _report(state: State, answers: Mapping[str, NodeState | ProbeError]) -> Report:
    """Return the report about the nodes of a run, as far as the run repairs or fails by them."""
    seen = dict(_seen(state, answers))
    read = {name: each.state for name, each in seen.items() if each.state is not None}
    inventory = str(_command_line().get("inventory") or "INVENTORY")
    part = part_of(next(iter(state.inventory)))
    whole = report_of(inventory, seen, judged(state, read), run_of(state).day)
    return whole.part(part.areas, part.nodes)


def _seen(
    state: State, answers: Mapping[str, NodeState | ProbeError]
) -> Iterator[tuple[str, Seen]]:
    for host in state.inventory:
        if not state.is_host_in_limit(host):
            continue
        data, answer = host.data.dict(), answers.get(host.name)
        wanted, nodes, sudo = wanted_of(host), peers_of(data), data.get("_sudo") is True
        if isinstance(answer, NodeState):
            yield host.name, Seen(wanted, answer, None, True, nodes, sudo)
        elif host in state.activated_hosts:
            yield host.name, Seen(wanted, error=str(answer or _LEFT), nodes=nodes)
        else:
            yield host.name, Seen(wanted, error=_NO_CONNECTION, reached=False, nodes=nodes)


def _console() -> Console:
    return Console(stderr=True, markup=False, emoji=False)


def _print(shown: RenderableType, console: Console) -> None:
    click.echo(f"\n{printed(shown, console)}", err=True, nl=False, color=console.is_terminal)


def _options() -> list[str]:
    """Return the options of pyinfra's command line that `gpu-node deploy` has as well."""
    given = _command_line()
    return [
        word
        for name in ("limit", "data")
        for value in given.get(name) or ()
        for word in (f"--{name}", value)
    ]


def _command_line() -> dict[str, Any]:
    """Return the parameters of pyinfra's command line, as far as it can be understood."""
    try:
        options, _, _ = cli.make_parser(click.Context(cli)).parse_args(sys.argv[1:])
    except click.UsageError:
        return {}
    return dict(options)
