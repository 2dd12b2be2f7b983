"""The head of a report whose facts were read by Slurm jobs, for all that people read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.model import Report
from gpu_node.inventories.escape import visible


def of_jobs(report: Report) -> Iterator[Text]:
    """Yield a line, and an empty one, where facts are a job's."""
    if not report.in_jobs:
        return
    where = visible(ranges(report.in_jobs, report.hosts))
    seen = "Slurm jobs read these facts: user, cgroup, limits, environment and /dev/shm are a job's"
    yield Text(f"{seen} ({where}); a login may have others.", style="bold")
    yield Text()
