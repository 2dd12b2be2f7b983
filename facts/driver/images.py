"""Boot images: which initramfs contains nouveau, or an older nvidia module than installed."""

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.shell import shell

SECTIONS = (Section("driver.nouveau", shell("driver/nouveau"), seconds=30, root=True, light=True),)


class Nouveau(State):
    """What blocks nouveau: files of modprobe.d and the kernel's command line.

    `kernels` are those that have the module; `initramfs` those whose initramfs contains it (None if
    that could not be read).
    """

    blacklists: tuple[str, ...]
    cmdline: bool
    kernels: tuple[str, ...]
    initramfs: dict[str, bool | None]


def parse_images(text: str) -> tuple[Nouveau, dict[str, bool | None]]:
    """Parse `blacklist FILE`, `cmdline`, `kernel NAME` and `initramfs KERNEL yes|no|closed`.

    The second value comes from `module KERNEL same|no|other|closed`: whether the initramfs contains
    another nvidia module than the installed one.
    """
    rows = [line.split() for line in lines_of(text)]
    has = {"yes": True, "no": False, "closed": None, "same": False, "other": True}
    nouveau = Nouveau(
        blacklists=tuple(row[1] for row in rows if row[0] == "blacklist"),
        cmdline=["cmdline"] in rows,
        kernels=tuple(row[1] for row in rows if row[0] == "kernel"),
        initramfs={row[1]: has[row[2]] for row in rows if row[0] == "initramfs"},
    )
    return nouveau, {row[1]: has[row[2]] for row in rows if row[0] == "module"}


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields about boot images."""
    nouveau, stale = readings.take("driver.nouveau", parse_images) or (None, None)
    return {"nouveau": nouveau, "stale_images": stale}
