"""Which findings keep a job from starting, or from its end, on their node."""

from __future__ import annotations

from gpu_node.drift.engine.finding import Finding


def blocks_a_job(finding: Finding) -> bool:
    """Whether no job can run on a node that has this finding: each error counts."""
    return finding.severity == "error"
