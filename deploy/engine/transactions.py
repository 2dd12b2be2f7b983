"""Installs packages; what a transaction would do to other packages is shown before the question."""

from typing import Any

from pyinfra import host, logger
from typing_extensions import override

from gpu_node.deploy.engine.scripts import Script, look, script
from gpu_node.facts.probe.base import SectionFact, as_argument
from gpu_node.facts.probe.protocol import Section, read
from gpu_node.inventories.escape import visible

_NAME = "packages.foreseen"
# For the lists of all repositories, where a node has none yet.
_SECONDS = 60


class Foreseen(SectionFact):
    """Returns {"refused": REASON} if a transaction would be refused; "" also if that is unknown."""

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return {"refused": ""}

    @override
    def command(self, script: str) -> str:
        # What fails has no plan: the script itself reports why.
        section = Section(_NAME, f"({script}\n) 2>/dev/null || :", _SECONDS)
        return as_argument(self.script_for(section))

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        reading = read(output, [self.asked]).sections.get(_NAME)
        return {"refused": "" if reading is None or reading.problem else reading.text.strip()}


def transaction(name: str, **variables: str) -> Script:
    """Return the script that installs packages.

    If it would be refused because of other packages, that is reported at once: before the question
    of a run, and in a dry run.
    """
    if not host.state.is_executing:
        foresee(name, variables)
    return script(name, **variables)


def foresee(name: str, variables: dict[str, str]) -> None:
    """Report what a transaction would be refused for, as far as the node can foresee it."""
    if refused := host.get_fact(Foreseen, script=look(name, **variables))["refused"]:
        logger.error(f"{host.print_prefix}{visible(refused)}; no package will be changed")
