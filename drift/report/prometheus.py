"""The report as metrics, for the textfile collector of Prometheus' node_exporter."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import get_args

from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Status
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.drift.report.start import for_jobs
from gpu_node.drift.report.view import View
from gpu_node.inventories.escape import visible

# Of a label: a path may be longer.
_LONGEST = 200
Sample = tuple[dict[str, str], float]


def parts(view: View, page: Page) -> Iterator[str]:
    """Yield each metric with its samples; the labels are names of nodes, rules and severities.

    All are in ASCII, without timestamps, which the collector refuses. The inventory is a label of
    each: the files of several inventories may be in one folder.
    """
    report = view.report
    severities: Counter[str] = Counter(each.severity for each in view.problems)
    found = Counter(
        (name, each.rule, each.severity)
        for name, host in report.hosts.items()
        for each in host.findings
    )
    written = datetime.fromisoformat(report.generated).timestamp()
    can_start = {*view.start.nodes}
    metrics: dict[str, tuple[str, Iterable[Sample]]] = {
        "report_timestamp_seconds": ("When the report was made, in Unix time.", [({}, written)]),
        "report_exit_status": (
            "Exit status of the report: 0 no drift, 2 drift, 1 unknown.",
            [({}, report.exit_code())],
        ),
        "nodes": (
            "Nodes by status.",
            [({"status": each}, getattr(report.summary, each)) for each in get_args(Status)],
        ),
        "problems": (
            "Problems by severity: what one repair mends is one problem.",
            [({"severity": each}, severities[each]) for each in SEVERITY_STYLES],
        ),
        "node_read": (
            "Whether the facts of a node could be read.",
            [({"node": name}, host.error is None) for name, host in report.hosts.items()],
        ),
        "node_job_can_start": (
            "Whether a job can start on a node; 0 where that is unknown.",
            [({"node": name}, name in can_start) for name in for_jobs(report)],
        ),
        "node_findings": (
            "Findings of a rule on a node; a rule without a finding has no sample.",
            [
                ({"node": name, "rule": rule, "severity": severity}, count)
                for (name, rule, severity), count in found.items()
            ],
        ),
        "node_findings_off": (
            "Findings on a node that the inventory turns off.",
            [({"node": name}, len(host.off)) for name, host in report.hosts.items()],
        ),
    }
    for name, (text, samples) in metrics.items():
        yield f"# HELP gpu_node_{name} {text}\n# TYPE gpu_node_{name} gauge\n"
        for labels, value in samples:
            pairs = {"inventory": report.inventory, **labels}.items()
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in pairs)
            yield f"gpu_node_{name}{{{shown}}} {float(value):.0f}\n"


def _escaped(text: str) -> str:
    plain = visible(text, _LONGEST).encode("ascii", "backslashreplace").decode("ascii")
    return plain.replace("\\", "\\\\").replace('"', '\\"')
