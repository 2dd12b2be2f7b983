"""A site's own checks: what the commands of the inventory print on a node."""

import re
import shlex
from collections.abc import Sequence
from typing import Literal, cast

from pydantic import Field
from typing_extensions import override

from gpu_node.facts.probe.base import AreaFact, State
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable
from gpu_node.facts.probe.request import OwnCheck, ProbeRequest
from gpu_node.facts.probe.shell import assigned
from gpu_node.facts.probe.training_user import SHARED, USE

Same = Literal["", "everywhere", "per-model"]
_MOST_BYTES = 4096
_END = re.compile(r"\n(\d{1,3}) (|everywhere|per-model)\Z", re.ASCII)
_AS_ROOT = """if [ "${gn_uid:-$(id -u)}" = 0 ]; then %s; else
echo "it is for root, and the SSH user is not root"; false; fi"""


class Answer(State):
    """How a command ended, and what it printed, errors included; `same`: who must agree on it."""

    code: int
    text: str
    same: Same = ""


class OwnState(State):
    """The answers by the names of the checks; a command that was cut off has none."""

    answers: dict[str, Answer] = Field(default_factory=dict)


def _section(each: OwnCheck, request: ProbeRequest) -> Section:
    run = f"as_user {shlex.quote(each.command)}"
    run = _AS_ROOT % run if each.root else run
    return Section(
        f"own.{each.name}",
        # A command that kills the shell above it ends this subshell, and the code is still printed.
        f"({assigned(user='' if each.root else request.user)}{USE}{run})\n"
        f"printf '\\n%s %s' \"$?\" {shlex.quote(each.same)}",
        shared=(SHARED,),
        root=each.root or request.trains_apart,
        bytes=_MOST_BYTES,
    )


def _answer(text: str) -> Answer:
    end = _END.search(text)
    if end is None:
        raise Unreadable("not understood: it does not end in an exit code")
    return Answer(code=int(end[1]), text=text[: end.start()].strip(), same=cast(Same, end[2]))


class Own(AreaFact):
    """Returns `OwnState` as a dict: {"answers": {"licence": {"code": 0, "text": "7.2"}}}."""

    sections = ()
    state = OwnState

    @override
    def sections_for(self, request: ProbeRequest) -> Sequence[Section]:
        return tuple(_section(each, request) for each in request.own_checks)

    @classmethod
    @override
    def parse(cls, readings: Readings) -> OwnState:
        asked = [name for name in readings.sections if name.startswith("own.")]
        read = {name.partition(".")[2]: readings.take(name, _answer) for name in asked}
        return OwnState(answers={name: each for name, each in read.items() if each is not None})
