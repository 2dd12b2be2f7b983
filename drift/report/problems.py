"""Problems: the findings of a report, gathered by what a person mends at once."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from gpu_node.drift.engine.finding import OR, Finding, Severity, Way, before_found
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.subject import Logins, RootOnly
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.facts.areas import AREAS

# The id of the problem that has the facts which only root can read, of all areas and nodes.
NEEDS_ROOT = "needs-root"
Repair = Literal["deploy", "partly", "manual"]
_SEVERITIES = list(SEVERITY_STYLES)
_ORDER = {rule: number for number, rule in enumerate(RULES)}
# What is wanted is short, or left to `--full`: it may be a sentence.
LONGEST_WANTED = 40
# Before what is wanted, at the end of a finding.
WANT = ", want "


class OnNode(NamedTuple):
    """A finding and the node that has it."""

    node: str
    finding: Finding


class Entry(NamedTuple):
    """A finding, once for all nodes that have it, and what it says, each with its label."""

    finding: Finding
    nodes: list[str]
    lines: list[tuple[str, str]]


@dataclass(frozen=True)
class Problem:
    """What one repair mends: findings of one rule or of siblings, and those that they explain.

    `id` is the rule, or the area where several rules of it have findings that one step repairs, or
    NEEDS_ROOT.
    """

    id: str
    own: tuple[OnNode, ...]
    explained: tuple[OnNode, ...]

    @property
    def all(self) -> tuple[OnNode, ...]:
        """Its findings, the ones that it explains last."""
        return self.own + self.explained

    @property
    def severity(self) -> Severity:
        """The worst of its findings."""
        return min((each.finding.severity for each in self.all), key=_SEVERITIES.index)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have it, in the order of the report."""
        return tuple(dict.fromkeys(each.node for each in self.all))

    @property
    def repair(self) -> Repair:
        """Whether the deploy repairs it: what it explains ends with it."""
        repaired = {each.finding.fixable for each in self.own}
        return "partly" if len(repaired) > 1 else "deploy" if True in repaired else "manual"


def problems(hosts: Mapping[str, HostReport]) -> list[Problem]:
    """Return the problems of all nodes, the worst first; each finding is in one of them."""
    found = gathered(
        (_first(each), OnNode(name, each)) for name, host in hosts.items() for each in host.findings
    )
    listed = [_problem(under, each) for under, each in found.items()]
    return sorted(listed, key=lambda each: (_SEVERITIES.index(each.severity), _place(each)))


def chosen(listed: Iterable[Problem], words: Collection[str]) -> Iterator[Problem]:
    """Yield the problems that one of the words names: a problem, a rule, an area or a node.

    Of a problem that only a node chooses, the findings of other nodes are left out.
    """
    for problem in listed:
        if problem.id in words or any(names(words, each.finding.rule) for each in problem.all):
            yield problem
            continue
        own, explained = (
            tuple(each for each in part if each.node in words)
            for part in (problem.own, problem.explained)
        )
        if own or explained:
            yield Problem(problem.id, own, explained)


def parts(problem: Problem, nodes: Collection[str]) -> list[tuple[str, int]]:
    """Return what is wrong in words, a part of each rule first, each with its number of findings.

    What the deploy does not repair comes first.

    `nodes` are those of the report.
    """
    if problem.id == NEEDS_ROOT:
        facts = gathered((finding.subject, node) for node, finding in problem.own)
        count = f"{len(facts)} facts are" if len(facts) > 1 else "a fact is"
        listed = (
            f"{fact}{_where(on, problem.nodes, nodes, ' ({})')}" for fact, on in facts.items()
        )
        return [(f"{count} readable by root only: {', '.join(listed)}", len(problem.own))]
    own = sorted(problem.own, key=lambda each: each.finding.fixable)
    by_rule = gathered(
        (rule, (f"{words}{_where(on, problem.nodes, nodes, ' ({})')}", len(on)))
        for (rule, words), on in _distinct(own or problem.explained).items()
    )
    depth = max(map(len, by_rule.values()))
    return [each[at] for at in range(depth) for each in by_rule.values() if at < len(each)]


def repair_of(problem: Problem, hosts: Mapping[str, HostReport]) -> str:
    """Return who repairs a problem: not the deploy, where it has no root on any of its nodes."""
    by_user = {name for name in problem.nodes if hosts[name].without_root}
    if len(by_user) < len(problem.nodes):
        return problem.repair
    return "admin" if without_root(problem, by_user)[1] else "manual"


def without_root(problem: Problem, nodes: Collection[str]) -> tuple[str, str]:
    """Return what a user without root can do about a problem, and what root has to do.

    `nodes` are those whose facts such a user read; both texts are empty if it has none of them. A
    text that is about some of the problem's nodes begins with their names.
    """
    alone: dict[str, list[str]] = {}
    admin: dict[str, list[str]] = {}
    for node, each in (each for each in problem.own or problem.explained if each.node in nodes):
        if problem.id == NEEDS_ROOT:
            admin.setdefault(each.fix, []).append(node)
            continue
        ways = each.ways or (Way("user", each.fix),)
        if own := OR.join(way.text for way in ways if way.who == "user"):
            alone.setdefault(own, []).append(node)
            continue
        admin.setdefault(each.fix, []).append(node)
        if each.alone:
            alone.setdefault(each.alone, []).append(node)
    return _by_nodes(alone, problem.nodes), _by_nodes(admin, problem.nodes)


def _by_nodes(texts: Mapping[str, Collection[str]], nodes: Collection[str]) -> str:
    """Return texts one behind the other, those about all nodes first, others behind the names."""
    by_nodes = gathered((_where(on, nodes, (), "{}: "), text) for text, on in texts.items())
    about_all = joined(by_nodes.pop("", ()))
    others = (f"{names}{joined(each)}" for names, each in by_nodes.items())
    return joined(each for each in (about_all, *others) if each)


def _where(on: Collection[str], all_of: Collection[str], nodes: Collection[str], form: str) -> str:
    """Return the names of nodes in a form; empty where they are all that a problem has."""
    names = list(dict.fromkeys(on))
    return "" if len(names) == len(all_of) else form.format(ranges(names, nodes))


def leads_to(problem: Problem) -> list[str]:
    """Return the rules whose findings a problem explains, without its own area's name.

    Each has the number of its findings behind it, where it has several that `parts` do not have.
    """
    area = problem.id.split(".")[0]
    rules = Counter(each.finding.rule.removeprefix(f"{area}.") for each in problem.explained)
    return [
        f"{rule} ({count})" if count > 1 and problem.own else rule for rule, count in rules.items()
    ]


def joined(texts: Iterable[str]) -> str:
    """Return texts one behind the other, each once; some are sentences."""
    ended = [each if each.endswith(".") else f"{each};" for each in dict.fromkeys(texts)]
    return " ".join(ended).removesuffix(";")


def _distinct(findings: Iterable[OnNode]) -> dict[tuple[str, str], list[str]]:
    """Return what the findings say, each text with its rule, and the node of each finding."""
    compared: dict[tuple[str, str], dict[str, list[str]]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    for node, each in findings:
        if is_compared(each):
            values = compared.setdefault((each.rule, each.subject), {})
            values.setdefault(each.found, []).append(node)
            continue
        wanted = f"{WANT}{each.wanted}" if 0 < len(each.wanted) <= LONGEST_WANTED else ""
        about = before_found(each.subject, node)
        found = each.found.removesuffix(".") if wanted else each.found
        texts.setdefault((each.rule, f"{about}{found}{wanted}"), []).append(node)
    for (rule, subject), values in compared.items():
        nodes = [node for on in values.values() for node in on]
        listed = "; ".join(f"{value} on {ranges(on)}" for value, on in values.items())
        texts[rule, f"{subject}: {listed}"] = nodes
    return texts


def entries(
    found: Iterable[OnNode], listed: Callable[[Iterable[str]], str] = ", ".join
) -> list[Entry]:
    """Return each distinct finding, errors first; `listed` returns names of nodes as text.

    What nodes differ in is one finding of all of them: each has another value.
    """
    grouped: dict[Finding, dict[str, list[str]]] = {}
    for name, finding in found:
        without: dict[str, object] = {"root": None, "root_nodes": ()}
        if is_compared(finding):
            without["found"] = ""
        if isinstance(finding.about, Logins):  # `found` has the peers
            without |= {"subject": "", "about": None}
        key = finding.model_copy(update=without)
        grouped.setdefault(key, {}).setdefault(finding.found, []).append(name)
    made = [
        Entry(
            finding,
            [name for on in values.values() for name in on],
            [*_lines(finding, values, listed)],
        )
        for finding, values in grouped.items()
    ]
    return sorted(made, key=lambda each: _SEVERITIES.index(each.finding.severity))


def _lines(
    finding: Finding, values: Mapping[str, list[str]], listed: Callable[[Iterable[str]], str]
) -> Iterator[tuple[str, str]]:
    having = [
        f"{value} on {listed(on)}" if len(values) > 1 else value for value, on in values.items()
    ]
    about = f"{finding.subject}: " if finding.subject else ""
    yield "found", f"{about}{'; '.join(having)}"
    yield "wanted", finding.wanted
    yield "cause", finding.cause
    yield "fix", f"{'' if finding.fixable else 'manually: '}{finding.fix}"


def is_compared(finding: Finding) -> bool:
    """Whether it is about values that differ between nodes: each node has another one."""
    rule = RULES.get(finding.rule)
    return rule is not None and rule.compares and not finding.fixable


def names(words: Collection[str], rule: str) -> bool:
    """Whether one of the words is a rule or its area."""
    return rule in words or rule.split(".")[0] in words


def _first(finding: Finding) -> str:
    """Return under what a finding is gathered: the rule of its root, or its own."""
    if finding.root is None and isinstance(finding.about, RootOnly):
        return NEEDS_ROOT
    rule = finding.root.rule if finding.root else finding.rule
    return (RULES[rule].under if rule in RULES else "") or rule


def _problem(under: str, findings: Iterable[OnNode]) -> Problem:
    own: list[OnNode] = []
    explained: list[OnNode] = []
    for each in findings:
        (explained if each.finding.root else own).append(each)
    rules = sorted({each.finding.rule for each in own}, key=_of_rule)
    is_area = under in AREAS and len(rules) > 1
    named = under if is_area or under == NEEDS_ROOT or under in rules or not rules else rules[0]
    return Problem(named, tuple(own), tuple(explained))


def _place(problem: Problem) -> tuple[int, int]:
    rules = (each.finding.rule for each in problem.own or problem.explained)
    return min(_of_rule(rule) for rule in rules)


def _of_rule(rule: str) -> tuple[int, int]:
    return AREAS.index(rule.split(".")[0]), _ORDER.get(rule, -1)
