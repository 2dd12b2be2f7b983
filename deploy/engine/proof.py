"""The proof: after a change each node is probed again in a new session and judged again."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.baseline import nodes_of, states
from gpu_node.deploy.engine.failures import failed, out
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.planning import any_changes, findings_of
from gpu_node.deploy.engine.run import run_of
from gpu_node.deploy.engine.scope import part_of
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.problems import joined, leads_to, problems, text
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.ask.session import ProbeError, fresh, probe
from gpu_node.facts.node import NodeState
from gpu_node.inventories.escape import visible

# A finding's rule and subject.
Key = tuple[str, str]


def prove(plan: Plan, rules: Collection[Rule] = (), always: bool = False) -> None:
    """Add the last operation of a plan: the proof, or a refusal if errors remain.

    Without either, warnings are printed at once. With `rules` the plan was only for their findings,
    and nothing else is judged; `always`: also if it has none that the deploy can repair.
    """
    if rules:
        _prove_alone(plan, rules, always)
    elif any_changes(host.state):
        # pyinfra runs an operation on all nodes before the next: each is judged by all new states.
        ask_again(name="Ask again in a new session")
        judge(name="Prove it")
    elif plan.manual:
        refuse(name="Stop: the rest needs manual action", findings=plan.findings)
    else:
        _print(host, plan.findings)


def _prove_alone(plan: Plan, rules: Collection[Rule], always: bool) -> None:
    ids = sorted(rule.id for rule in rules)
    manual = [each for each in plan.manual if each.rule in ids]
    if always or plan.repairs(*rules):
        ask_again(name="Ask again in a new session")
        judge(name="Prove it", rules=ids)
    elif manual:
        refuse(name="Stop: the rest needs manual action", findings=manual)


@operation(is_idempotent=False)
def ask_again() -> Generator[FunctionCommand, None, None]:
    """Probe the node over a new connection, as it is now."""
    yield FunctionCommand(_ask_again, [], {})


def _ask_again(state: State, host: Host) -> bool:
    if lost := out(host):
        logger.error(f"{host.print_prefix}not proved, and not asked again: {lost}")
        return False
    run = run_of(state)
    if run.proof_patience is None:
        asked = [each for each in state.active_hosts if not out(each)]
        run.proof_patience = Patience(len(asked))
    try:
        with fresh(host) as connector, run.proof_patience.asking(host, connector):
            proved = probe(host, connector)
    except (PyinfraError, ProbeError, GivenUp) as error:
        logger.error(f"{host.print_prefix}not proved, no new session: {visible(str(error))}")
        return False
    run.node(host).proved_by = proved
    return True


@operation(is_idempotent=False)
def judge(rules: Sequence[str] = ()) -> Generator[FunctionCommand, None, None]:
    """
    Fail the node if an error or a fixable finding is left; `ask_again` comes before it.

    + rules: the ids of the rules that are judged; empty for all
    """
    yield FunctionCommand(_judge, [rules], {})


def _judge(state: State, host: Host, rules: Sequence[str]) -> bool:
    nodes = run_of(state).nodes.items()
    now = {name: node.proved_by for name, node in nodes if node.proved_by is not None}
    if host.name not in now:  # ask_again has reported that there is no new session
        return False
    # The state of a node that left the run is unknown: no other node is compared with it.
    there = {each.name for each in state.active_hosts}
    cluster = nodes_of(host, {**_of(there, states(state)), **_of(there, now)})
    findings = findings_of(host, cluster.states)
    if rules:
        left = [each for each in findings if each.rule in rules]
    else:
        left = list(part_of(host).of(host.name, findings))
    _print(host, left, _before(state, host))
    for finding in () if rules else part_of(host).waiting(host.name, findings):
        about = "" if finding.subject == host.name else f"{finding.subject}: "
        text = f"{finding.rule}: {about}{finding.found}"
        waits = f"waits for {finding.root.node}" if finding.root else "waits"
        logger.warning(f"{host.print_prefix}{visible(f'{text}; {waits}')}")
    if areas := failed(host):
        logger.error(f"{host.print_prefix}failed in this run: {', '.join(areas)}")
    return not areas and not any(each.fixable or each.severity == "error" for each in left)


@operation(is_idempotent=False)
def refuse(findings: Sequence[Finding]) -> Generator[FunctionCommand, None, None]:
    """
    Fail the node: it has errors that the deploy does not repair.

    + findings: what needs manual action
    """
    yield FunctionCommand(_refuse, [findings], {})


def _before(state: State, host: Host) -> set[Key]:
    """Return what was wrong with a node before this run, by rule and subject."""
    was = states(state)
    if host.name not in was:
        return set()
    return {(finding.rule, finding.subject) for finding in findings_of(host, was)}


def _of(names: Collection[str], read: Mapping[str, NodeState]) -> dict[str, NodeState]:
    return {name: state for name, state in read.items() if name in names}


def _refuse(state: State, host: Host, findings: Sequence[Finding]) -> bool:
    _print(host, findings)
    return False


def _print(host: Host, findings: Sequence[Finding], before: Collection[Key] | None = None) -> None:
    """Print a line for each problem of a node, in the report's words, with what repairs it.

    `before` are the findings before the run, where it has changed nodes.
    """
    alone = HostReport(status="drift", findings=list(findings))
    for problem in problems({host.name: alone}):
        parts = [f"{problem.id}: {text(problem, [host.name])}"]
        if rules := leads_to(problem):
            parts.append(f"leads to {', '.join(rules)}")
        fixes: dict[str, list[str]] = {}
        for each in (each.finding for each in problem.own or problem.explained):
            fixes.setdefault(_repair(each, before), []).append(each.fix)
        parts += [f"{repair}: {joined(each)}" for repair, each in fixes.items()]
        log = logger.error if problem.severity == "error" else logger.warning
        log(f"{host.print_prefix}{visible('; '.join(parts))}")


def _repair(finding: Finding, before: Collection[Key] | None) -> str:
    """Return why a finding is left."""
    if not finding.fixable:
        return "manual"
    if before is not None and (finding.rule, finding.subject) not in before:
        # As in an environment that was missing before.
        return "found only after this repair, run the deploy again"
    return "not repaired"
