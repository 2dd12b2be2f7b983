"""What the inventory turns off: an area of the report that asks the node for nothing."""

from gpu_node.facts.probe.base import AreaFact, State


class ChecksState(State):
    """Nothing: `checks` is about the inventory alone."""


class Checks(AreaFact):
    """Returns an empty dict."""

    sections = ()
    state = ChecksState
