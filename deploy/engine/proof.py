"""The proof: after a change the node is probed again in a new session, and must be right."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from weakref import WeakKeyDictionary

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.exceptions import PyinfraError

from deploy.before import among, states
from deploy.failures import failed
from deploy.part import part_of
from deploy.peers import apart
from deploy.plan import Plan, any_changes, wanted_of
from drift.check import check
from drift.finding import Finding
from drift.report.visible import visible
from facts.node import NodeState
from facts.session import ProbeError, fresh, probe

# Of each run, what the nodes that it changed are like by now.
_again: WeakKeyDictionary[State, dict[str, NodeState]] = WeakKeyDictionary()


def prove(plan: Plan, rules: Collection[str] = ()) -> None:
    """Add the operation that a plan ends with: the proof, or the refusal where only hands help.

    Where there is neither, what only deserves a warning is told at once. With `rules` the plan was
    for their findings alone, and nothing else is judged.
    """
    if rules:
        _prove_alone(plan, rules)
    elif any_changes(host.state):
        # pyinfra runs an operation on all nodes before the next: each is judged by all new states.
        ask_again(name="Ask again in a new session")
        judge(name="Prove it")
    elif plan.by_hand or _between(host, states(host.state)):
        refuse(name="Stop: the rest is done by hand", findings=plan.findings)
    else:
        for finding in plan.findings:
            _tell(host, finding)


def _prove_alone(plan: Plan, rules: Collection[str]) -> None:
    by_hand = [each for each in plan.by_hand if each.rule in rules]
    if plan.repairs(*rules) or plan.has_copies:
        ask_again(name="Ask again in a new session")
        judge(name="Prove it", rules=sorted(rules))
    elif by_hand:
        refuse(name="Stop: the rest is done by hand", findings=by_hand)


@operation(is_idempotent=False)
def ask_again() -> Generator[FunctionCommand, None, None]:
    """Probe the node over a new connection, as it is now."""
    yield FunctionCommand(_ask_again, [], {})


def _ask_again(state: State, host: Host) -> bool:
    try:
        with fresh(host) as connector:
            found = probe(host, connector)
    except (PyinfraError, ProbeError) as error:
        logger.error(f"{host.print_prefix}not proved, no new session: {visible(str(error))}")
        return False
    _again.setdefault(state, {})[host.name] = found
    return True


@operation(is_idempotent=False)
def judge(rules: Sequence[str] = ()) -> Generator[FunctionCommand, None, None]:
    """
    Fail the node if anything is left that should not be; `ask_again` stands before it.

    + rules: those that are judged; all, where none is named
    """
    yield FunctionCommand(_judge, [rules], {})


def _judge(state: State, host: Host, rules: Sequence[str]) -> bool:
    now = _again.get(state, {})
    if host.name not in now:  # no new session: ask_again reported it
        return False
    # A node that left the run may be in another state than before: nothing is judged by it.
    there = {each.name for each in state.active_hosts}
    around = among(host, {**_of(there, states(state)), **_of(there, now)})
    found = check(now[host.name], wanted_of(host), around)
    if rules:
        findings = [each for each in found if each.rule in rules]
    else:
        findings = [*part_of(host).of(host.name, found), *_between(host, around.found)]
    before = _before(state, host)
    for finding in findings:
        _tell(host, finding, is_new=(finding.rule, finding.subject) not in before)
    if areas := failed(host):
        logger.error(f"{host.print_prefix}failed in this run: {', '.join(areas)}")
    return not areas and not any(each.fixable or each.severity == "error" for each in findings)


@operation(is_idempotent=False)
def refuse(findings: Sequence[Finding]) -> Generator[FunctionCommand, None, None]:
    """
    Fail the node: nothing can be done from here, and it is not right.

    + findings: what a person has to repair
    """
    yield FunctionCommand(_refuse, [findings], {})


def _before(state: State, host: Host) -> set[tuple[str, str]]:
    """Return what was wrong with a node before this run, by rule and subject."""
    was = states(state)
    if host.name not in was:
        return set()
    findings = check(was[host.name], wanted_of(host), among(host, was))
    return {(finding.rule, finding.subject) for finding in findings}


def _of(names: Collection[str], found: Mapping[str, NodeState]) -> dict[str, NodeState]:
    return {name: state for name, state in found.items() if name in names}


def _between(host: Host, found: Mapping[str, NodeState]) -> tuple[Finding, ...]:
    """Return what is wrong between nodes in these states."""
    torch = apart(found)
    return part_of(host).of(host.name, [torch] if torch else [])


def _refuse(state: State, host: Host, findings: Sequence[Finding]) -> bool:
    for finding in [*findings, *_between(host, states(state))]:
        _tell(host, finding)
    return False


def _tell(host: Host, finding: Finding, is_new: bool = False) -> None:
    hand = "still there" if finding.fixable else "by hand"
    if finding.fixable and is_new:  # as in an environment that was not there to be judged
        hand = "it shows only now: run once more"
    say = logger.error if finding.severity == "error" else logger.warning
    said = f"{finding.rule}: {finding.subject}: {finding.found}, wanted {finding.wanted}"
    say(f"{host.print_prefix}{visible(f'{said}; {hand}: {finding.fix}')}")
