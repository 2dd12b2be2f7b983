"""Fabric: the NVSwitches on the PCI bus, their fabric manager, and the NVLinks of the GPUs."""

import re

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.shell import shell

SECTIONS = (
    Section("fabric.switches", shell("fabric/switches"), shared=(PROCESS,), light=True),
    Section("fabric.nvlink", shell("fabric/nvlink"), seconds=30),
)

_LINK = re.compile(r"\s+Link \d+: (?P<state>.*)")


class Switch(State):
    """An NVSwitch on the PCI bus: its device id (0x22a3)."""

    id: str


_SWITCH = Columns(Switch, "id", " ")


class Switches(State):
    """The NVSwitches, and whether the fabric manager they need is installed and running.

    `version` is the manager's, None where it is unknown.
    """

    found: tuple[Switch, ...]
    installed: bool
    running: bool
    version: str | None = None


class NvLink(State):
    """Links of a GPU: how many there are, and how many of them work."""

    gpu: str
    links: int
    active: int


class NvLinks(State):
    """The output of nvidia-smi about NVLink; `code` None: nvidia-smi does not exist."""

    code: int | None
    gpus: tuple[NvLink, ...]
    output: str


class FabricState(State):
    """Everything about the fabric that rules use."""

    switches: Switches | None
    nvlinks: NvLinks | None


def parse_switches(text: str) -> Switches:
    """Parse `switch ID` lines, `version VERSION`, and the words `installed` and `running`."""
    rows = by_word(text)
    return Switches(
        found=tuple(map(_SWITCH.row, rows["switch"])),
        installed="installed" in rows,
        running="running" in rows,
        version=next(map(checked.version, rows["version"]), None),
    )


def parse_nvlink(text: str) -> NvLinks:
    """Parse `code N`, then `nvidia-smi nvlink -s`: a line for a GPU, then one for each link."""
    first, *rest = lines_of(text)
    if first == "absent":
        return NvLinks(code=None, gpus=(), output="")
    gpus: list[NvLink] = []
    output: list[str] = []
    for line in filter(str.strip, rest):
        link = _LINK.match(line)
        if line.startswith("GPU "):
            gpus.append(NvLink(gpu=line.partition(" (UUID")[0], links=0, active=0))
        elif link and gpus:
            works = int("inactive" not in link["state"].lower())
            last = gpus[-1]
            gpus[-1] = NvLink(gpu=last.gpu, links=last.links + 1, active=last.active + works)
        else:
            output.append(line.strip())
    code = int(first.removeprefix("code "))
    return NvLinks(code=code, gpus=tuple(gpus), output="; ".join(output))


PARSERS: Parsers = {
    "fabric.switches": ("switches", parse_switches),
    "fabric.nvlink": ("nvlinks", parse_nvlink),
}


class Fabric(AreaFact):
    """Returns `FabricState` as a dict: {"switches": {"found": [...]}, "nvlinks": {...}}."""

    sections = SECTIONS
    state = FabricState
    parsers = PARSERS
