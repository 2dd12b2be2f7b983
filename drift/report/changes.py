"""What changed since an earlier report: the part of the report that `--since` adds."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field
from rich.text import Text

from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.change_words import change, moment
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

# Lines of one kind that the table shows; the JSON has all of them.
_MOST = 20
_LONGEST = 200


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Identity(_Part):
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


class ChangedFact(_Part):
    """A fact of a node whose value is another one than it was; null: the node did not have it.

    `since` is the time of the first kept report with the new value (ISO 8601, UTC); null where no
    kept report says.
    """

    node: str
    fact: str
    before: str | None
    now: str
    since: str | None = None


class Changes(_Part):
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


def lines(changes: Changes | None, nodes: Iterable[str]) -> Iterator[Text]:
    """Yield the lines of a report for people about what changed; `nodes` are all of the report."""
    if changes is None:
        return
    known = [*nodes]
    yield Text()
    if changes.earlier is None:
        yield Text(f"no earlier report to compare with (--since {visible(changes.since)})", "bold")
        return
    counts = [
        f"{len(changes.new)} new",
        f"{len(changes.gone)} gone",
        f"{len(changes.not_judged)} not judged now",
        f"{counted(len(changes.facts), 'fact')} changed",
    ]
    yield Text(f"since {moment(changes.earlier)}: {', '.join(counts)}", style="bold")
    if changes.added:
        yield Text(f"not in that report, so all theirs is new: {_nodes(changes.added, known)}")
    yield from _few("gone", _by_words((each.node, _finding(each)) for each in changes.gone), known)
    unjudged = ((each.node, f"{_finding(each)} ({each.why})") for each in changes.not_judged)
    yield from _few("not judged now", _by_words(unjudged), known)
    yield from _few("fact", _by_words((each.node, _fact(each)) for each in changes.facts), known)


def _by_words(given: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the nodes of each text."""
    by_words: dict[str, list[str]] = {}
    for node, words in given:
        by_words.setdefault(words, []).append(node)
    return by_words


def _few(kind: str, by_words: Mapping[str, list[str]], nodes: list[str]) -> Iterator[Text]:
    for words, on in [*by_words.items()][:_MOST]:
        yield Text(f"  {kind}  {_nodes(on, nodes)}  {visible(words, _LONGEST)}")
    if (more := len(by_words) - _MOST) > 0:
        yield Text(f"  {kind}  {more} more, see --format json", style="dim")


def _nodes(names: Iterable[str], of: list[str]) -> str:
    return visible(ranges(names, of))


def _finding(each: Earlier) -> str:
    # Of its logins a node is itself the subject: its name is there already.
    about = f"{each.subject}: " if each.subject not in ("", each.node) else ""
    return f"{each.rule}  {about}{each.found}"


def _fact(each: ChangedFact) -> str:
    since = f" since {moment(each.since)}" if each.since else ""
    return f"{each.fact}  {change(each.before, each.now)}{since}"
