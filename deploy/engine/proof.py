"""The proof: after a change each node is probed again in a new session and judged again."""

from collections.abc import Collection, Sequence

from pyinfra import host, logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.operations import python

from gpu_node.deploy.engine.baseline import nodes_of, states
from gpu_node.deploy.engine.plan import Plan, together
from gpu_node.deploy.engine.planning import any_changes, findings_of
from gpu_node.deploy.engine.run import node_of, run_of
from gpu_node.deploy.engine.scope import part_of
from gpu_node.drift.engine.finding import Finding, before_found
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.ranges import gathered
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.problems import joined, leads_to, parts, problems
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.ask.session import ProbeError, fresh, probe
from gpu_node.inventories.escape import visible

# A finding's rule and subject.
Key = tuple[str, str]


def prove(plan: Plan, rules: Collection[Rule] = (), always: bool = False) -> None:
    """Add the last operation of a plan: the proof, or a refusal if errors remain.

    Without either, warnings are printed at once. With `rules` the plan was only for their findings,
    and nothing else is judged; `always`: also if it has none that the deploy can repair.
    """
    changes = always or plan.repairs(*rules) if rules else any_changes(host.state)
    left = plan.findings_of(*rules) if rules else plan.findings
    if changes:
        # pyinfra runs an operation on all nodes before the next: each is judged by all new states.
        python.call(name="Ask again in a new session", function=_ask_again)
        ids = sorted(rule.id for rule in rules)
        python.call(name="Prove it", function=_judge, rules=ids)
    elif any(each.severity == "error" for each in left):
        refuse(name="Stop: the rest needs manual action", findings=left)
    else:
        _print(host, left)


def _ask_again(state: State, host: Host) -> bool:
    """Probe the node over a new connection, as it is now."""
    if lost := node_of(host).out:
        logger.error(f"{host.print_prefix}not proved, and not asked again: {lost}")
        return False
    run = run_of(state)
    if run.proof_patience is None:
        asked = [each for each in state.active_hosts if not node_of(each).out]
        run.proof_patience = Patience(len(asked))
    try:
        with fresh(host) as connector, run.proof_patience.asking(host, connector):
            proved = probe(host, connector)
    except (PyinfraError, ProbeError, GivenUp) as error:
        logger.error(f"{host.print_prefix}not proved, no new session: {visible(str(error))}")
        return False
    node_of(host).proved_by = proved
    return True


def _judge(state: State, host: Host, rules: Sequence[str]) -> bool:
    """Fail the node if an error or a fixable finding is left; without `rules` all are judged."""
    asked = run_of(state).proof.answers(state, lambda each: node_of(each).proved_by, together)
    now = {name: each for name, each in asked.items() if each is not None}
    node_of(host).proved_by = now.get(host.name)
    if host.name not in now:  # ask_again has reported that there is no new session
        return False
    # The state of a node that left the run is unknown: no other node is compared with it.
    there = {each.name for each in state.active_hosts}
    known = {**states(state), **now}
    cluster = nodes_of(host, {name: each for name, each in known.items() if name in there})
    findings = findings_of(host, cluster.states)
    if rules:
        left = [each for each in findings if each.rule in rules]
    else:
        left = list(part_of(host).of(host.name, findings))
    _print(host, left, _before(state, host))
    for finding in () if rules else part_of(host).waiting(host.name, findings):
        about = before_found(finding.subject, host.name)
        text = f"{finding.rule}: {about}{finding.found}"
        waits = f"waits for {finding.root.node}" if finding.root else "waits"
        logger.warning(f"{host.print_prefix}{visible(f'{text}; {waits}')}")
    if areas := node_of(host).failed:
        logger.error(f"{host.print_prefix}failed in this run: {', '.join(areas)}")
    return not areas and not any(each.fixable or each.severity == "error" for each in left)


def refuse(name: str, findings: Sequence[Finding]) -> None:
    """Add an operation that fails the node: it has errors that the deploy does not repair."""
    python.call(name=name, function=_refuse, findings=findings)


def _before(state: State, host: Host) -> set[Key]:
    """Return what was wrong with a node before this run, by rule and subject."""
    was = states(state)
    if host.name not in was:
        return set()
    return {(finding.rule, finding.subject) for finding in findings_of(host, was)}


def _refuse(state: State, host: Host, findings: Sequence[Finding]) -> bool:
    _print(host, findings)
    return False


def _print(host: Host, findings: Sequence[Finding], before: Collection[Key] | None = None) -> None:
    """Print a line for each problem of a node, in the report's words, with what repairs it.

    `before` are the findings before the run, where it has changed nodes.
    """
    alone = HostReport(status="drift", findings=list(findings))
    for problem in problems({host.name: alone}):
        wrong = (words for words, _ in parts(problem, [host.name]))
        shown = [f"{problem.id}: {'; '.join(wrong)}"]
        if rules := leads_to(problem):
            shown.append(f"leads to {', '.join(rules)}")
        failed = node_of(host).failed
        own = (each.finding for each in problem.own)
        fixes = gathered((_repair(each, before, failed), each.fix) for each in own)
        shown += [f"{repair}: {joined(each)}" for repair, each in fixes.items()]
        if not problem.own:
            roots = dict.fromkeys(each.finding.root for each in problem.explained)
            shown += [f"repair {each.rule} on {each.node} first" for each in roots if each]
        log = logger.error if problem.severity == "error" else logger.warning
        log(f"{host.print_prefix}{visible('; '.join(shown))}")


def _repair(finding: Finding, before: Collection[Key] | None, failed: Collection[str]) -> str:
    """Return why a finding is left."""
    if not finding.fixable:
        return "manual"
    if before is not None and (finding.rule, finding.subject) not in before:
        # As in an environment that was missing before.
        return "found only after this repair, run the deploy again"
    if before is not None and finding.rule.split(".")[0] not in failed:
        return "not repaired, though no step failed: find what prevents or reverts it"
    return "not repaired"
