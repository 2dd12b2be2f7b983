"""Boot images: which initramfs holds nouveau, or an nvidia module from before the installed one."""

from __future__ import annotations

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.shell import shell

SECTIONS = (Section("driver.nouveau", shell("driver/nouveau"), seconds=30, root=True),)


class Nouveau(State):
    """What keeps nouveau away: files of modprobe.d and the kernel's command line.

    `kernels` are those that have the module, `initramfs` those whose initramfs holds it (None where
    that could not be read).
    """

    blacklists: tuple[str, ...]
    cmdline: bool
    kernels: tuple[str, ...]
    initramfs: dict[str, bool | None]


def parse_images(text: str) -> tuple[Nouveau, dict[str, bool | None]]:
    """Parse `blacklist FILE`, `cmdline`, `kernel NAME` and `initramfs KERNEL yes|no|closed`.

    Of `module KERNEL same|no|other|closed` the second value is made: whether the initramfs holds
    another nvidia module than the installed one.
    """
    rows = [line.split() for line in text.splitlines()]
    has = {"yes": True, "no": False, "closed": None, "same": False, "other": True}
    nouveau = Nouveau(
        blacklists=tuple(row[1] for row in rows if row[0] == "blacklist"),
        cmdline=["cmdline"] in rows,
        kernels=tuple(row[1] for row in rows if row[0] == "kernel"),
        initramfs={row[1]: has[row[2]] for row in rows if row[0] == "initramfs"},
    )
    return nouveau, {row[1]: has[row[2]] for row in rows if row[0] == "module"}


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields that are about boot images."""
    nouveau, stale = readings.take("driver.nouveau", parse_images) or (None, None)
    return {"nouveau": nouveau, "stale_images": stale}
