"""The whole report for people: a matrix of facts, then each finding with its cause and fix."""

from collections.abc import Collection, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gpu_node.drift.report.entry import entry, lines, listed, whole
from gpu_node.drift.report.matrix import STATUS_STYLES, matrix
from gpu_node.drift.report.problems import Entry, OnNode, entries
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.drift.report.view import View
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import deploy_command


def render(view: View, width: int, facts: bool = False) -> RenderableType:
    """Return the report as a rich renderable for a console of this width.

    `facts` come before the findings where some are chosen; in a whole report they always do.
    """
    report = view.report
    parts: list[RenderableType] = [*lines([view.head]), Text()] if view.given else []
    parts += [*lines(view.in_jobs), *[Text()] * bool(view.in_jobs)]
    if (facts or not view.only) and not view.given:
        parts += [matrix(view.facts, width), Text()]
    parts += [*findings(view), *listed(view.off, width)]
    if view.changes:
        parts += [Text(), *lines(view.changes), Text()]
    parts += [*lines([view.totals]), *lines(view.left_out)]
    parts += [Text(), Text(view.why, style="dim")] if view.why else []
    by_root = [host for host in view.hosts.values() if not host.without_root]
    if any(finding.fixable for host in by_root for finding in host.findings):
        parts.append(whole(f"repair: {deploy_command(report.inventory)}"))
    if view.hosts and not view.only:
        parts += lines(view.answer)
    return Group(*parts)


def findings(view: View) -> Iterator[RenderableType]:
    """Yield each finding with its cause and fix, and why nodes were not read."""
    changes = view.report.changes
    new = changes.keys if changes else frozenset()
    yield from (_entry(each, new) for each in entries(_chosen(view)))
    for name, host in view.hosts.items():
        if host.error:
            status = (host.status, STATUS_STYLES[host.status])
            head = Text.assemble(status, "  ", (visible(name), "bold"))
            yield Group(head, Padding(Text(visible_lines(host.error)), (0, 0, 1, 2)))


def _chosen(view: View) -> Iterable[OnNode]:
    """Return the findings that are shown, node by node."""
    if not view.only:
        return (OnNode(name, each) for name, host in view.hosts.items() for each in host.findings)
    order = list(view.hosts)
    chosen = (each for row in view.rows for each in row.problem.all)
    return sorted(chosen, key=lambda each: order.index(each.node))


def _entry(found: Entry, new: Collection[tuple[str, str, str]]) -> RenderableType:
    finding, nodes = found.finding, found.nodes
    # Of logins the node is the subject.
    added = [name for name in nodes if (name, finding.rule, finding.subject or name) in new]
    is_new = "" if not added else "  new" if added == nodes else f"  new on {', '.join(added)}"
    head = Text.assemble(
        (finding.severity, SEVERITY_STYLES[finding.severity]),
        "  ",
        (f"{finding.rule}  ", "bold"),
        visible(", ".join(nodes)),
        (visible(is_new), "bold"),
    )
    return entry(head, found.lines)
