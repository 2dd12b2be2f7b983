"""Clock rule: a node's time is that of this machine and of the other nodes."""

from collections.abc import Iterator
from typing import NamedTuple

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.clock import ClockState

# Seconds by which two clocks may differ: NTP keeps them within milliseconds, and from minutes on
# certificates and signatures fail.
WARNING, ERROR = 1, 60


class Offset(NamedTuple):
    """By how many seconds a clock is ahead of this machine's: at least and at most."""

    least: float
    most: float


HERE = Offset(0, 0)


def offset(clock: ClockState) -> Offset | None:
    """Return a node's offset; None where it is unknown.

    The node read its clock after it was asked, and before its answer was here.
    """
    times = (clock.begin, clock.end, clock.step, clock.asked, clock.answered)
    begin, end, step, asked, answered = times
    if begin is None or end is None or step is None or asked is None or answered is None:
        return None
    return Offset(end - answered, begin + step - asked)


def ahead(one: Offset, other: Offset) -> float:
    """Return the seconds that one clock is certainly ahead of another; below 0 it is behind."""
    if one.least > other.most:
        return one.least - other.most
    return min(one.most - other.least, 0)


def _is_apart(one: Offset, other: Offset) -> bool:
    return abs(ahead(one, other)) > WARNING


@check("clock.skew")
def skew(at: At) -> Iterator[Fault]:
    own = offset(at.node.clock)
    if own is None:
        return
    if not _is_apart(own, HERE):
        yield from _node_against_node(own, at.nodes)
        return
    others = {name: each for name, each in at.nodes.once(_offsets).items() if name != at.nodes.name}
    if others and all(_is_apart(each, HERE) for each in others.values()):
        if any(_is_apart(own, each) for each in others.values()):
            yield _fault(ahead(own, HERE), "this machine")
        elif at.nodes.name == min([at.nodes.name, *others]):
            yield _of_this_machine(ahead(HERE, own), len(others) + 1)
    else:
        yield _fault(ahead(own, HERE), "this machine")


def _offsets(nodes: Nodes) -> dict[str, Offset]:
    """Return the offset of each node that was asked, where it is known."""
    known = {name: offset(each.clock) for name, each in nodes.states.items()}
    return {name: each for name, each in known.items() if each is not None}


def _outermost(nodes: Nodes) -> dict[str, Offset]:
    """Return the clocks that are the first and the last of those that may be this machine's."""
    near = {n: each for n, each in nodes.once(_offsets).items() if not _is_apart(each, HERE)}
    names = {
        min(near, key=lambda name: near[name].most, default=""),
        max(near, key=lambda name: near[name].least, default=""),
    }
    return {name: near[name] for name in near if name in names}


def _node_against_node(own: Offset, nodes: Nodes) -> Iterator[Fault]:
    """Yield a fault where a clock that may be this machine's is certainly not another node's."""
    apart = {
        name: ahead(own, each)
        for name, each in nodes.once(_outermost).items()
        if name != nodes.name and _is_apart(own, each)
    }
    if apart:
        name = max(apart, key=lambda each: abs(apart[each]))
        yield _fault(apart[name], name)


def _fault(seconds: float, other: str) -> Fault:
    severity: Severity = "error" if abs(seconds) > ERROR else "warning"
    return Fault(
        subject="clock",
        found=f"at least {_difference(seconds)} {other}",
        wanted=f"at most {WARNING} s apart",
        severity=severity,
    )


def _of_this_machine(seconds: float, nodes: int) -> Fault:
    return Fault(
        subject="clock of this machine",
        found=f"at least {_difference(seconds)} the {nodes} nodes, which agree with each other",
        wanted=f"at most {WARNING} s apart",
        cause="the nodes agree, so this machine's clock is wrong",
        severity="info",
    )


def _difference(seconds: float) -> str:
    amount = f"{abs(seconds):.0f}" if abs(seconds) >= 10 else f"{abs(seconds):.1f}"
    return f"{amount} s {'ahead of' if seconds > 0 else 'behind'}"
