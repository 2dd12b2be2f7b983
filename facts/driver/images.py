"""Boot images: which initramfs contains nouveau, or an older nvidia module than installed."""

from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import by_word
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
    rows = by_word(text, words="blacklist cmdline kernel initramfs module")
    nouveau = Nouveau(
        blacklists=tuple(rows["blacklist"]),
        cmdline="cmdline" in rows,
        kernels=tuple(rows["kernel"]),
        initramfs=dict(map(_verdict, rows["initramfs"])),
    )
    return nouveau, dict(map(_verdict, rows["module"]))


def _verdict(row: str) -> tuple[str, bool | None]:
    kernel, word = row.split()
    return kernel, _HAS[word]


_HAS = {"yes": True, "no": False, "closed": None, "same": False, "other": True}
PARSERS: Parsers = {"driver.nouveau": ("nouveau stale_images", parse_images)}
