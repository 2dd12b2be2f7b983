"""What the inventory turns off: an area of the report that asks the node for nothing."""

from typing_extensions import override

from gpu_node.facts.probe.base import AreaFact, State
from gpu_node.facts.probe.protocol import Readings


class ChecksState(State):
    """Nothing: `checks` is about the inventory alone."""


class Checks(AreaFact):
    """Returns an empty dict."""

    sections = ()
    state = ChecksState

    @staticmethod
    @override
    def parse(readings: Readings) -> ChecksState:
        return ChecksState()
