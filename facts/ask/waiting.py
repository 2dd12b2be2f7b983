"""When a node that is asked beside others is given up: the limits, without a connection."""

import math
from dataclasses import dataclass, field

# Seconds after half of the other nodes have answered: a node without any output is given up after
# the first limit, every node after the second one. A running probe sends something every 10 s.
SILENT_SECONDS, LAST_SECONDS = 30, 180
# Seconds of silence after which any node is given up: its login shell hangs.
HUNG_SECONDS = 90
# A report that reads all files of an environment takes minutes for each environment.
DEEP_LAST_SECONDS = 1800


@dataclass
class Waiting:
    """What is known of `nodes` nodes that are asked at once; all times are of one clock.

    `last` is the limit for each node after half of the others have answered, in seconds.
    """

    nodes: int
    last: float = LAST_SECONDS
    answered: set[str] = field(default_factory=set)
    # When half of the other nodes had answered.
    since: float | None = None

    def count(self, name: str, now: float) -> None:
        """Count the answer of a node; an error is not one: a node without power fails at once."""
        self.answered.add(name)
        # A single node has the whole time limit of the probe.
        enough = math.ceil((self.nodes - 1) / 2) if self.nodes > 1 else math.inf
        if self.since is None and len(self.answered) >= enough:
            self.since = now

    def given_up(self, name: str, asked: float, heard: float | None, now: float) -> str:
        """Return why a node is given up that was `asked`, and last `heard`, then; "" if it is not.

        `heard` is None where the time of its last output is unknown.
        """
        if now - max(asked, heard or 0) > HUNG_SECONDS:
            return (
                f"it sent nothing for {HUNG_SECONDS} s: its login shell hangs; next: look at "
                "~/.bashrc, and at the file system of the home"
            )
        if self.since is None:
            return ""
        begun = max(asked, self.since)
        alone = f"to wait for it, ask it alone with --limit {name}"
        if now - max(begun, heard or 0) > SILENT_SECONDS:
            return f"it sent nothing for {SILENT_SECONDS} s while the others answered: {alone}"
        if now - begun > self.last:
            return f"it has not answered {self.last} s after half of the others: {alone}"
        return ""


def too_late(seconds: float) -> str:
    """Return why a node has no answer whose time limit is over."""
    return f"no answer to the probe within {seconds:.0f} s"
