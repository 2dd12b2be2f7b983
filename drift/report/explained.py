"""What the rules say of themselves, for `gpu-node explain` and `gpu-node rules`."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.drift import xids
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.engine.rule import OnPeer
from gpu_node.drift.report.entry import entry
from gpu_node.drift.report.problems import NEEDS_ROOT
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.facts.areas import AREAS

# Which jobs an error of a rule stops.
_STOPS = {
    "every": "every job on the node",
    "several": "jobs on several nodes",
    "logins": "jobs whose launcher logs in to the nodes",
    "launches": "jobs whose launcher logs in to the nodes",
    "unknown": "unknown: what it hides may stop a job",
}
_MANUAL = "manual: the deploy changes nothing"
# Of each area that the probe reads, and what the table sums up of all areas.
UNREADABLE = (*(f"{area}.unreadable" for area in AREAS), NEEDS_ROOT)
_UNREAD = (
    ("checks", "The probe could not read a fact of this area."),
    ("why", "What is unknown counts as wrong: the nodes cannot be compared."),
    ("repair", "manual: the finding names what failed and what it needs"),
)
_ROOT_ONLY = (
    ("checks", "Only root can read these facts, and the SSH user is not root and has no sudo."),
    ("why", "What is unknown counts as wrong. JSON and --full list each fact as AREA.unreadable."),
    ("repair", _MANUAL),
    (
        "manual",
        "Write ssh: {sudo: true} into the inventory, and give --ask-sudo-password if sudo asks for "
        "a password; or write ssh: {user: root}.",
    ),
    ("without root", "Repair the other problems: each names what that user can do."),
)


def in_order() -> list[Rule]:
    """Return all rules, area by area in the order of a report."""
    return sorted(RULES.values(), key=lambda rule: AREAS.index(rule.area))


def texts(word: str) -> RenderableType:
    """Return the texts of one rule, or of all rules of an area; KeyError: there is no such one."""
    if word in UNREADABLE:
        return entry(_head(word, "error"), lines_of(word))
    rules = [each for each in in_order() if each.area == word] or [RULES[word]]
    return Group(*(entry(_head(rule.id, *rule.severity), _lines(rule)) for rule in rules))


def of_xid(code: int) -> RenderableType:
    """Return what an Xid error of the driver means; of an unknown one where to look."""
    known = xids.table().get(code)
    unknown = (("what", "unknown: the table of codes does not have it"), ("do", xids.UNKNOWN))
    return entry(Text(f"{xids.PREFIX}{code}", style="bold"), known.lines() if known else unknown)


def lines_of(rule: str) -> Iterable[tuple[str, str]]:
    """Return the texts of one rule, each with its label; KeyError: there is no such rule."""
    if rule in UNREADABLE:
        return _ROOT_ONLY if rule == NEEDS_ROOT else _UNREAD
    return _lines(RULES[rule])


def listed(area: str | None) -> RenderableType:
    """Return a line for each rule, of all areas or of one."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rule in in_order():
        if area in (None, rule.area):
            repair = "repaired" if rule.steps else "manual"
            words = _severities(rule.severity)
            table.add_row(words, Text(rule.id, style="bold"), repair, rule.checks)
    return table


def _head(rule_id: str, *severities: str) -> Text:
    return Text.assemble(_severities(severities), "  ", (rule_id, "bold"))


def _severities(severities: Iterable[str]) -> Text:
    return Text(" or ").join(
        Text(severity, style=SEVERITY_STYLES[severity]) for severity in severities
    )


def _lines(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "checks", rule.checks
    yield "why", rule.why
    yield "judged", rule.judged.replace("`", "")
    yield "repair", rule.repair or _MANUAL
    yield "manual", rule.manual
    if rule.without_root:
        yield "without root", rule.without_root
    if rule.in_container:
        yield "in a container", rule.in_container
    if rule.stops in _STOPS:
        spared = f", but not where {rule.spares}" if rule.spares else ""
        yield "stops", f"{_STOPS[rule.stops]}{spared}"
    if rule.explained_by:
        yield "because of", causes(rule)
    if effects := list(_effects(rule)):
        yield "leads to", ", ".join(effects)


def causes(rule: Rule) -> str:
    """Return the rules whose findings explain one of this rule, and where those must be."""
    return "; ".join(
        f"{each.peer} (on the node that the finding is about)" if isinstance(each, OnPeer) else each
        for each in rule.explained_by
    )


def _effects(rule: Rule) -> Iterable[str]:
    return (each.id for each in in_order() if rule.id in each.causes)
