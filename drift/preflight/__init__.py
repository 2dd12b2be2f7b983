"""The pre-flight's verdicts: whether a server can become a node of the cluster, row by row."""

from gpu_node.drift.preflight.judge import judged
from gpu_node.drift.preflight.row import Newcomer, Row, Verdict

__all__ = ["Newcomer", "Row", "Verdict", "judged"]
