"""The proof: after a change the node is probed again in a new session, and must be right."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from weakref import WeakKeyDictionary

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.exceptions import PyinfraError

from deploy.peers import apart
from deploy.plan import Plan, wanted_of
from deploy.round import AFTER, BEFORE, among
from drift.check import check
from drift.finding import Finding
from drift.report.visible import visible
from facts.node import NodeState
from facts.session import ProbeError, fresh, probe

# Of each run, the nodes that it changes; all are asked again when the first is to be proved.
_proved: WeakKeyDictionary[State, set[str]] = WeakKeyDictionary()


def prove(plan: Plan) -> None:
    """Add the operation that a plan ends with: the proof, or the refusal where only hands help.

    Where there is neither, what only deserves a warning is told at once.
    """
    if plan.has_repairs or plan.reboots:
        _proved.setdefault(host.state, set()).add(host.name)
        second_probe(name="Prove it in a new session")
    elif plan.by_hand or apart(host.state):
        refuse(name="Stop: the rest is done by hand", findings=plan.findings)
    else:
        for finding in plan.findings:
            _tell(host, finding)


@operation(is_idempotent=False)
def second_probe() -> Generator[FunctionCommand, None, None]:
    """Probe the node over a new connection and fail it if anything is left that should not be."""
    yield FunctionCommand(_second_probe, [], {})


def _second_probe(state: State, host: Host) -> bool:
    found = AFTER.answers(state, _ask_anew, _proved.get(state, set()))[host.name]
    if isinstance(found, ProbeError):
        logger.error(f"{host.print_prefix}not proved, no new session: {visible(str(found))}")
        return False
    around = among(host, {**BEFORE.found(state), **AFTER.found(state)})
    findings = [*check(found, wanted_of(host), around), *_between(state)]
    for finding in findings:
        _tell(host, finding)
    return not any(finding.fixable or finding.severity == "error" for finding in findings)


def _ask_anew(host: Host) -> NodeState:
    try:
        with fresh(host) as connector:
            return probe(host, connector)
    except PyinfraError as error:
        raise ProbeError(str(error)) from error


@operation(is_idempotent=False)
def refuse(findings: Sequence[Finding]) -> Generator[FunctionCommand, None, None]:
    """
    Fail the node: nothing can be done from here, and it is not right.

    + findings: what a person has to repair
    """
    yield FunctionCommand(_refuse, [findings], {})


def _between(state: State) -> list[Finding]:
    """Return what is wrong between the nodes of this run."""
    found = apart(state)
    return [found] if found else []


def _refuse(state: State, host: Host, findings: Sequence[Finding]) -> bool:
    for finding in [*findings, *_between(state)]:
        _tell(host, finding)
    return False


def _tell(host: Host, finding: Finding) -> None:
    hand = "still there" if finding.fixable else "by hand"
    say = logger.error if finding.severity == "error" else logger.warning
    said = f"{finding.rule}: {finding.subject}: {finding.found}, wanted {finding.wanted}"
    say(f"{host.print_prefix}{visible(f'{said}; {hand}: {finding.fix}')}")
