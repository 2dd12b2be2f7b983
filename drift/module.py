"""The nvidia module: which lines keep it from being loaded."""

from __future__ import annotations

from facts.driver import DriverState
from facts.loaded import Bar

CMDLINE = "/proc/cmdline"


def bars(found: DriverState) -> tuple[Bar, ...]:
    """Return the lines that keep nvidia from being loaded; none where they are unreadable."""
    return found.loaded.bars if found.loaded else ()


def hard_bars(found: DriverState) -> tuple[Bar, ...]:
    """Return those that stop modprobe, too; a blacklist stops only what a boot loads."""
    soft = ("blacklist ", "modprobe.blacklist=")
    return tuple(each for each in bars(found) if not each.text.startswith(soft))


def shown(bar: Bar) -> str:
    """Return a bar as text: `blacklist nvidia` in /etc/modprobe.d/a.conf."""
    return f"`{bar.text}` {'on' if bar.place == CMDLINE else 'in'} {place(bar)}"


def place(bar: Bar) -> str:
    """Return where a bar is, for people."""
    return "kernel command line" if bar.place == CMDLINE else bar.place


def removal(bar: Bar) -> str:
    """Return how a person removes a bar."""
    if bar.place != CMDLINE:
        return f"remove that line from {bar.place}"
    return (
        "remove it from GRUB_CMDLINE_LINUX (or GRUB_CMDLINE_LINUX_DEFAULT) in /etc/default/grub "
        "and run update-grub; on CentOS and Rocky: grubby --update-kernel=ALL "
        f"--remove-args='{bar.text}'; then reboot"
    )
