"""What changed since an earlier report: the part of the report that `--since` adds."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field

from gpu_node.drift.engine.finding import Finding, Severity, before_found
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.change_words import change, moment
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted, few

# Lines of one kind that the table shows; the JSON has all of them.
_MOST = 20
_LONGEST = 200


class Part(BaseModel):
    """A part of the report."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Identity(Part):
    """What makes two findings the same one: the node, the rule and the subject."""

    node: str
    rule: str
    subject: str


class Earlier(Identity):
    """A finding that an earlier report has and this one does not, in the words of that report."""

    severity: Severity
    found: str
    wanted: str


class NotJudged(Earlier):
    """Such a finding of which this report cannot say whether it still exists, and why."""

    why: str


class ChangedFact(Part):
    """A fact of a node whose value is another one than it was; null: the node did not have it.

    `since` is the time of the first kept report with the new value (ISO 8601, UTC); null where no
    kept report says.
    """

    node: str
    fact: str
    before: str | None
    now: str
    since: str | None = None


class Changes(Part):
    """What is new, gone and changed since an earlier report, `since` as --since has it.

    `earlier` is the time of that report (ISO 8601, UTC); null: no report is comparable. `added` are
    the nodes that it did not read: all findings of these are new.
    """

    since: str
    earlier: str | None = None
    added: list[str] = Field(default_factory=list)
    new: list[Identity] = Field(default_factory=list)
    gone: list[Earlier] = Field(default_factory=list)
    not_judged: list[NotJudged] = Field(default_factory=list)
    facts: list[ChangedFact] = Field(default_factory=list)

    def is_new(self, node: str, finding: Finding) -> bool:
        """Whether a finding of a node is new since the earlier report."""
        return (node, finding.rule, finding.subject) in self.keys

    @cached_property
    def keys(self) -> frozenset[tuple[str, str, str]]:
        """The new findings, by node, rule and subject."""
        return frozenset((each.node, each.rule, each.subject) for each in self.new)


def mark(changes: Changes | None, findings: Iterable[tuple[str, Finding]]) -> str:
    """Return what is printed before a problem with such findings: whether it is new."""
    if changes is None:
        return ""
    new = [changes.is_new(node, each) for node, each in findings]
    if not any(new):
        return ""
    return "new  " if all(new) else f"{sum(new)} of {len(new)} new  "


def lines(changes: Changes, nodes: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield lines about what changed, each with its style; `nodes` are all of the report."""
    if changes.earlier is None:
        yield f"no earlier report to compare with (--since {visible(changes.since)})", "bold"
        return
    counts = [
        f"{len(changes.new)} new",
        f"{len(changes.gone)} gone",
        f"{len(changes.not_judged)} not judged now",
        f"{counted(len(changes.facts), 'fact')} changed",
    ]
    yield f"since {moment(changes.earlier)}: {', '.join(counts)}", "bold"
    if changes.added:
        on = visible(ranges(changes.added, nodes))
        yield f"not in that report, so all theirs is new: {on}", ""
    unjudged = ((f"{_finding(each)} ({each.why})", each.node) for each in changes.not_judged)
    kinds = {
        "gone": ((_finding(each), each.node) for each in changes.gone),
        "not judged now": unjudged,
        "fact": ((_fact(each), each.node) for each in changes.facts),
    }
    for kind, found in kinds.items():
        lines = (
            f"{visible(ranges(names, nodes))}  {visible(words, _LONGEST)}"
            for words, names in gathered(found).items()
        )
        for at, line in enumerate(few(lines, _MOST, "{} more, see --format json")):
            yield f"  {kind}  {line}", "dim" if at == _MOST else ""


def _finding(each: Earlier) -> str:
    return f"{each.rule}  {before_found(each.subject, each.node)}{each.found}"


def _fact(each: ChangedFact) -> str:
    since = f" since {moment(each.since)}" if each.since else ""
    return f"{each.fact}  {change(each.before, each.now)}{since}"
