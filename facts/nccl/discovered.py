"""Python environments with torch that an inventory does not name: the section that finds them."""

import re
from dataclasses import dataclass, field

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.training_user import SHARED as AS_USER

NAME = "nccl.discovered"
# An environment takes a second; a node with more of them has a list that no job uses as a whole.
MOST = 8
# After so many seconds no further environment is asked, and one may take as long as `_EACH`.
_SECONDS, _EACH = 25, 10
_HOW = re.compile(r"PATH|conda|pid \d{1,10}")


@dataclass(frozen=True)
class Discovered:
    """What was found: each folder with how it was, its line of JSON, or why it has none."""

    how: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    # Further environments that were not asked.
    more: int = 0


def section(request: ProbeRequest, shared: tuple[tuple[str, str], ...]) -> Section:
    """Return the section; `shared` has the program for an environment's Python, and owner.sh."""
    by_sudo = "yes" if request.sudo and not request.asks else "no"
    given = {"user": request.user, "owner_sudo": by_sudo}
    given |= {"owner_seconds": str(_EACH), "found_seconds": str(_SECONDS), "deep": ""}
    script = assigned(**given) + shell("env/training_user") + shell("nccl/discovered", most=MOST)
    seconds = _SECONDS + _EACH + 5
    return Section(NAME, script, seconds, (*shared, AS_USER), root=request.trains_apart)


def parse(text: str) -> Discovered:
    """Parse the section's lines; an answer has one line, whatever an environment prints."""
    discovered = Discovered()
    lines = iter(lines_of(text))
    for line in lines:
        word, _, rest = line.partition("\t")
        if word == "more":
            return Discovered(
                discovered.how, discovered.answers, discovered.problems, checked.number(rest)
            )
        prefix, _, how = rest.partition("\t")
        if word != "environment" or not _HOW.fullmatch(how) or len(discovered.how) == MOST:
            raise Unreadable(f"not a line about an environment: {line[:60]!a}")
        discovered.how[checked.path(prefix)] = how
        answer = next(lines, "")
        if answer.startswith("problem\t"):
            discovered.problems[prefix] = answer.partition("\t")[2]
        else:
            discovered.answers[prefix] = answer
    return discovered
