"""NVLink: the switches on the PCI bus, their fabric manager, and which links of the GPUs work."""

from __future__ import annotations

import re

from facts.area import State
from facts.probe import Section

# Class 0680 of NVIDIA's is an NVSwitch. comm has the first 15 letters of nv-fabricmanager.
_SWITCHES = r"""
for d in /sys/bus/pci/devices/*; do
  [ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$d/class" 2>/dev/null) in 0x0680*) ;; *) continue ;; esac
  printf 'switch %s %s\n' "${d##*/}" "$(cat "$d/device")"
done
! command -v nv-fabricmanager >/dev/null 2>&1 || echo installed
! cat /proc/[0-9]*/comm 2>/dev/null | grep -q '^nv-fabricmanage' || echo running
"""
_NVLINK = r"""
command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
# It would load the module.
[ -d /sys/module/nvidia ] || { printf 'code 9\nthe nvidia module is not loaded\n'; exit 0; }
said=$(nvidia-smi nvlink -s 2>&1); code=$?
echo "code $code"
echo "$said"
"""

SECTIONS = (
    Section("preflight.switches", _SWITCHES),
    Section("preflight.nvlink", _NVLINK, seconds=30),
)

_LINK = re.compile(r"\s+Link \d+: (?P<said>.*)")


class Switch(State):
    """An NVSwitch on the PCI bus: slot and device id (0x22a3)."""

    slot: str
    id: str


class Switches(State):
    """The NVSwitches, and whether the fabric manager that they need is installed and runs."""

    found: tuple[Switch, ...]
    installed: bool
    running: bool


class NvLink(State):
    """Links of a GPU: how many there are, and how many of them work."""

    gpu: str
    links: int
    active: int


class NvLinks(State):
    """What nvidia-smi says of NVLink; `code` None: there is no nvidia-smi."""

    code: int | None
    gpus: tuple[NvLink, ...]
    said: str


def parse_switches(text: str) -> Switches:
    """Parse `switch SLOT ID` lines, and the words `installed` and `running`."""
    rows = [line.split() for line in text.splitlines()]
    return Switches(
        found=tuple(Switch(slot=row[1], id=row[2]) for row in rows if row[0] == "switch"),
        installed=["installed"] in rows,
        running=["running"] in rows,
    )


def parse_nvlink(text: str) -> NvLinks:
    """Parse `code N`, then what `nvidia-smi nvlink -s` says: a line a GPU, then one a link."""
    first, *rest = text.splitlines()
    if first == "absent":
        return NvLinks(code=None, gpus=(), said="")
    gpus: list[NvLink] = []
    said: list[str] = []
    for line in filter(str.strip, rest):
        link = _LINK.match(line)
        if line.startswith("GPU "):
            gpus.append(NvLink(gpu=line.partition(" (UUID")[0], links=0, active=0))
        elif link and gpus:
            works = int("inactive" not in link["said"].lower())
            last = gpus[-1]
            gpus[-1] = NvLink(gpu=last.gpu, links=last.links + 1, active=last.active + works)
        else:
            said.append(line.strip())
    code = int(first.removeprefix("code "))
    return NvLinks(code=code, gpus=tuple(gpus), said="; ".join(said))
