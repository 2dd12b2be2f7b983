"""Which findings keep a job from starting, or from its end, and a server from becoming a node."""

from collections.abc import Collection
from functools import cache

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import Stops

# What stops a launcher that logs in to the nodes: on any of them, and on the one that launches.
LAUNCHES: frozenset[Stops] = frozenset({"launches"})
OF_LOGINS: frozenset[Stops] = LAUNCHES | {"logins"}
OF_SEVERAL: frozenset[Stops] = OF_LOGINS | {"every", "several"}


def kinds(nodes: int, logs_in: bool = True) -> frozenset[Stops]:
    """Return what stops a job on so many nodes, whose launcher logs in to them or does not."""
    if nodes < 2:
        return frozenset({"every"})
    return OF_SEVERAL if logs_in else OF_SEVERAL - OF_LOGINS


def blocks_a_job(finding: Finding, kinds: Collection[Stops]) -> bool:
    """Whether a finding keeps a job off its node: an error of a rule of one of these kinds."""
    rule = RULES.get(finding.rule)
    is_error = finding.stops and finding.severity == "error"
    return rule is not None and is_error and rule.stops in kinds


def hides_what_blocks(finding: Finding) -> bool:
    """Whether something could not be read that may stop a job."""
    rule = RULES.get(finding.rule)
    if rule is not None:
        return finding.stops and rule.stops == "unknown"
    return finding.rule == f"{finding.area}.unreadable" and finding.area in _needed()


def bars_joining(finding: Finding) -> bool:
    """Whether a finding keeps a server from becoming a node.

    Of what is unknown it is a rule that could not be judged, and a section that a rule needs.
    """
    rule = RULES.get(finding.rule)
    if rule is None:
        return finding.subject in RULES or finding.subject in _read()
    return rule.bars == "join" and finding.severity == "error" and not finding.fixable


@cache
def _read() -> frozenset[str]:
    """Return the sections without which a server cannot be judged."""
    return frozenset(section for rule in RULES.values() for section in rule.reads)


@cache
def _needed() -> frozenset[str]:
    """Return the areas of which a job needs to know something."""
    return frozenset(
        rule.area for rule in RULES.values() if rule.stops and "a job" not in rule.when
    )
