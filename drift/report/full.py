"""The whole report for people: a matrix of facts, then each finding with its cause and fix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.report import changes, off
from gpu_node.drift.report.entry import entry, whole
from gpu_node.drift.report.matrix import STATUS_STYLES, matrix
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import closing, of_jobs, statuses
from gpu_node.drift.report.problems import chosen, is_compared, of_problems, only_lines, problems
from gpu_node.drift.report.signs import SEVERITY_STYLES, of_severity
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import deploy_command
from gpu_node.inventories.plurals import counted


def render(
    report: Report, width: int, only: Collection[str] = (), facts: bool = True
) -> RenderableType:
    """Return the report as a rich renderable for a console of this width.

    `only` chooses problems by rule, area or node; `facts` come before them.
    """
    parts: list[RenderableType] = [*of_jobs(report)]
    if facts:
        parts += [matrix(report.hosts, width), Text()]
    listed, hosts = problems(report.hosts), report.hosts
    shown = list(chosen(listed, only)) if only else listed
    if only:
        kept = of_problems(shown)
        hosts = {
            name: host.model_copy(update={"findings": kept.get(name, [])})
            for name, host in hosts.items()
        }
    findings = {name: host.findings for name, host in hosts.items()}
    new = report.changes.keys if report.changes else frozenset()
    parts += [_entry(finding, values, new) for finding, values in grouped(findings).items()]
    parts += [_unreached(name, host) for name, host in hosts.items() if host.error]
    parts += off.lines(report.hosts, width, only, full=True)
    parts += [*changes.lines(report.changes, report.hosts), *[Text()] * bool(report.changes)]
    parts.append(_summary(report))
    if only:
        parts += only_lines(only, len(shown), len(listed), report.hosts)
    return Group(*parts, *why_one_lines(report), *_next_step(report))


def grouped(by_node: Mapping[str, Iterable[Finding]]) -> dict[Finding, dict[str, list[str]]]:
    """Return each distinct finding, errors first, with what was found and on which nodes.

    What nodes differ in is one finding of all of them: each has another value.
    """
    grouped: dict[Finding, dict[str, list[str]]] = {}
    for name, findings in by_node.items():
        for finding in findings:
            without: dict[str, object] = {"root": None, "root_nodes": ()}
            if is_compared(finding):
                without["found"] = ""
            if isinstance(finding.about, Logins):  # `found` has the peers
                without |= {"subject": "", "about": None}
            key = finding.model_copy(update=without)
            grouped.setdefault(key, {}).setdefault(finding.found, []).append(name)
    order = list(SEVERITY_STYLES)
    return dict(sorted(grouped.items(), key=lambda entry: order.index(entry[0].severity)))


def _entry(
    finding: Finding, values: Mapping[str, list[str]], new: Collection[tuple[str, str, str]]
) -> RenderableType:
    nodes = [name for names in values.values() for name in names]
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
    return entry(head, lines(finding, values))


def lines(
    finding: Finding,
    values: Mapping[str, list[str]],
    listed: Callable[[Iterable[str]], str] = ", ".join,
) -> Iterator[tuple[str, str]]:
    """Yield what was found, wanted, the cause and the fix; `listed` returns names as text."""
    having = [
        f"{value} on {listed(names)}" if len(values) > 1 else value
        for value, names in values.items()
    ]
    about = f"{finding.subject}: " if finding.subject else ""
    yield "found", f"{about}{'; '.join(having)}"
    yield "wanted", finding.wanted
    yield "cause", finding.cause
    manually = "" if finding.fixable else "manually: "
    yield "fix", f"{manually}{finding.fix}"


def _unreached(name: str, host: HostReport) -> RenderableType:
    head = Text.assemble((host.status, STATUS_STYLES[host.status]), "  ", (visible(name), "bold"))
    return Group(head, Padding(Text(visible_lines(host.error or "")), (0, 0, 1, 2)))


def _next_step(report: Report) -> Iterator[Text]:
    hosts = [host for host in report.hosts.values() if not host.without_root]
    if any(finding.fixable for host in hosts for finding in host.findings):
        yield whole(f"repair: {deploy_command(report.inventory)}")


def _summary(report: Report) -> Text:
    total = report.summary
    counts = [counted(total.hosts, "node"), *statuses(total)]
    findings = [of_severity(count, each) for each, count in total.findings.items() if count]
    parts = [", ".join(counts), f"findings: {', '.join(findings) or 'none'}"]
    return closing(report, "; ".join(parts))


def why_one(report: Report) -> str:
    """Return why the report ends with 1 where no node and no area says so; --since has a line."""
    if report.exit_code() != 1 or report.summary.unreachable or report.summary.unreadable:
        return ""
    unknown = visible(", ".join(each.fact for each in report.unknown))
    return f"exit status 1: not known on all nodes, so not compared: {unknown}" if unknown else ""


def why_one_lines(report: Report) -> Iterator[Text]:
    """Yield the same as lines of a table."""
    if why := why_one(report):
        yield Text()
        yield Text(why, style="dim")
