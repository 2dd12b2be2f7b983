"""What gives /dev/shm a size at boot beside /etc/fstab: systemd units, drop-ins, rc.local."""

import re
from typing import Literal, cast

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.shell import shell

# It also prints the lines of /etc/fstab, which `parse_fstab` of state.py takes out.
ASK = shell("shm/boot")


class BootLine(State):
    """A line that gives /dev/shm a size: `size` as written, `state` is what a boot does with it.

    `runs`: a target wants its unit. `waits`: no unit was found that starts it at boot. `ignored`:
    systemd refuses mount units for /dev/shm ("Cannot create mount unit for API file system").
    """

    path: str
    line: int
    text: str
    size: str
    state: Literal["runs", "waits", "ignored"]


def parse(lines: list[str]) -> tuple[BootLine, ...]:
    """Parse lines of `STATE PATH NUMBER TEXT`, separated by tabs; ValueError for another one."""
    return tuple(map(_line, lines))


def _line(line: str) -> BootLine:
    state, path, number, text = line.split("\t", 3)
    # As in mount(8), the last one counts.
    size = re.findall(r"(?<![A-Za-z_-])size=([^\s,'\"]*)", text)[-1]
    return BootLine(
        path=path,
        line=int(number),
        text=text.strip(),
        size=size,
        state=cast(Literal["runs", "waits", "ignored"], state),
    )
