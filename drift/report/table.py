"""The report for people: a matrix with nodes as columns, then each finding with cause and cure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from drift.compare import UNREADABLE, Difference
from drift.compared import PACKAGE
from drift.finding import Finding
from drift.report.entry import entry
from drift.report.matrix import PACKAGES_SHOWN, STATUS_STYLES, matrix
from drift.report.model import HostReport, Report
from drift.report.visible import visible, visible_lines

# Where the deploy is in the repository.
DEPLOY = "deploy/gpu_node.py"

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def render(report: Report, width: int, deploy: str = DEPLOY) -> RenderableType:
    """Return the report as a rich renderable for a console of this width.

    `deploy` is the path of the deploy that repairs, as seen from where the user is.
    """
    parts: list[RenderableType] = [matrix(report.hosts, width), Text()]
    parts += [_entry(finding, nodes) for finding, nodes in _grouped(report.hosts).items()]
    parts += [_unreached(name, host) for name, host in report.hosts.items() if host.error]
    return Group(*parts, *_difference_lines(report), _summary(report), *_next_step(report, deploy))


def write(report: Report, console: Console, deploy: str = DEPLOY) -> None:
    """Write the report to a console."""
    console.print(render(report, console.width, deploy))


def _grouped(hosts: Mapping[str, HostReport]) -> dict[Finding, list[str]]:
    """Return each distinct finding with the nodes that have it, errors first."""
    grouped: dict[Finding, list[str]] = {}
    for name, host in hosts.items():
        for finding in host.findings:
            grouped.setdefault(finding, []).append(name)
    order = list(_STYLES)
    return dict(sorted(grouped.items(), key=lambda entry: order.index(entry[0].severity)))


def _entry(finding: Finding, nodes: list[str]) -> RenderableType:
    head = Text.assemble(
        (finding.severity, _STYLES[finding.severity]),
        "  ",
        (f"{finding.rule}  ", "bold"),
        visible(", ".join(nodes)),
    )
    return entry(head, _lines(finding))


def _lines(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "found", f"{finding.subject}: {finding.found}"
    yield "wanted", finding.wanted
    yield "cause", finding.cause
    by_hand = "" if finding.fixable else "by hand: "
    yield "fix", f"{by_hand}{finding.fix}"


def _unreached(name: str, host: HostReport) -> RenderableType:
    head = Text.assemble((host.status, STATUS_STYLES[host.status]), "  ", (visible(name), "bold"))
    return Group(head, Padding(Text(visible_lines(host.error or "")), (0, 0, 1, 2)))


def _apart(report: Report) -> list[Difference]:
    """Return the differences that are drift, without those that the findings tell already."""
    return [
        difference
        for difference in report.differences
        if difference.drift and (difference.certain or not _is_told(difference, report.hosts))
    ]


def _is_told(difference: Difference, hosts: Mapping[str, HostReport]) -> bool:
    """Whether each node that could not be read has a finding that says so."""
    rules = (f"{difference.fact.split('.')[0]}.unreadable", "nccl.environment-missing")
    return all(
        any(finding.rule in rules for finding in hosts[name].findings)
        for name, value in difference.values.items()
        if value == UNREADABLE
    )


def _difference_lines(report: Report) -> Iterator[RenderableType]:
    apart = _apart(report)
    if apart:
        yield Text("Nodes differ where they may not", style="bold")
    packages = [difference for difference in apart if difference.fact.startswith(PACKAGE)]
    for difference in apart:
        if difference not in packages[PACKAGES_SHOWN:]:
            values = ", ".join(f"{name} {value}" for name, value in difference.values.items())
            said = f"{difference.fact} ({difference.comparison}): {visible(values)}"
            yield Padding(Text(said), (0, 0, 0, 2))
    if len(packages) > PACKAGES_SHOWN:
        more = len(packages) - PACKAGES_SHOWN
        yield Text(f"  and {more} more packages: --format json lists them all")
    if apart:
        yield Text()


def _next_step(report: Report, deploy: str) -> Iterator[Text]:
    findings = [finding for host in report.hosts.values() for finding in host.findings]
    if any(finding.fixable for finding in findings):
        command = shlex.join(["pyinfra", report.inventory, deploy])
        yield Text(f"repair: {visible(command)}", style="dim")


def _summary(report: Report) -> Text:
    total = report.summary
    counts = [f"{total.hosts} node{'s' if total.hosts != 1 else ''}"]
    counts += [
        f"{count} {status}"
        for status, count in (
            ("ok", total.ok),
            ("drift", total.drift),
            ("unreachable", total.unreachable),
            ("unreadable", total.unreadable),
        )
        if count
    ]
    found = [_counted(count, severity) for severity, count in total.findings.items() if count]
    apart = len(_apart(report))
    parts = [", ".join(counts), f"findings: {', '.join(found) or 'none'}"]
    parts += [f"{apart} difference{'s' if apart != 1 else ''} between nodes"] if apart else []
    return Text("; ".join(parts), style="bold green" if report.exit_code() == 0 else "bold")


def _counted(count: int, severity: str) -> str:
    plural = "s" if count != 1 and severity != "info" else ""
    return f"{count} {severity}{plural}"
