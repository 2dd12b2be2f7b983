"""The rules by which firewalld would accept what comes from other nodes: which are missing."""

import shlex
from collections.abc import Sequence

from pydantic import Field
from typing_extensions import override

from gpu_node.facts.ports.state import TRUSTED
from gpu_node.facts.probe.base import SectionFact, State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import by_word
from gpu_node.facts.probe.shell import SBIN, shell

_SECONDS = 60


class Missing(State):
    """Zone and address of rules that are missing at runtime, and in what is read at each start.

    `problem` is why that is unknown.
    """

    runtime: tuple[str, ...] = ()
    permanent: tuple[str, ...] = ()
    problem: str = Field(default="", max_length=400)


def parse_missing(text: str) -> Missing:
    """Parse lines of a word and its values."""
    rows = by_word(text, words="runtime permanent problem")
    missing = {word: tuple(map(TRUSTED, rows[word])) for word in ("runtime", "permanent")}
    return Missing(**missing, problem="; ".join(rows["problem"]))


class FirewalldMissing(SectionFact):
    """Returns `Missing` as a dict: {"runtime": ["public 10.0.0.2"], "permanent": [], ...}."""

    unread = Missing()
    parser = staticmethod(parse_missing)

    @override
    def command(self, interface: str, addresses: Sequence[str]) -> str:
        words = shlex.join([interface, *addresses])
        text = f"{SBIN}set -- {words}\n{shell('ports/firewalld')}"
        return self.script_for(Section("ports.firewalld", text, seconds=_SECONDS))
