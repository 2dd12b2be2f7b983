"""The next boot: which kernel it takes, and by whose word."""

import re
from functools import lru_cache
from typing import NamedTuple

from gpu_node.facts.driver.kernels import Boot, Entry, Kernel
from gpu_node.facts.driver.state import DriverState

# A node has a handful, and each may take dkms some minutes while the other nodes wait.
MOST_REPAIRED = 6


class Next(NamedTuple):
    """The kernel that boots next (None: unknown) and the source that says so."""

    kernel: str | None
    source: str


def next_boot(state: DriverState) -> Next:
    """Return what boots next, by the first source that has a word on it.

    GRUB takes next_entry before all else, once. Then come grubby (the Red Hat family), the menu in
    grub.cfg, what the next menu will be made from, and at last the newest kernel, as menus have it.
    """
    kernels = bootable(state)
    newest = max((kernel.name for kernel in kernels), key=version_order, default=None)
    boot = state.boot
    if boot is None:
        return Next(None, "the boot loader's settings, which could not be read")
    if boot.once:
        return Next(_named(boot.once, boot, newest, kernels), "next_entry of grubenv, once")
    if boot.grubby:
        return Next(boot.grubby.rpartition("vmlinuz-")[2] or None, "grubby")
    if boot.closed:
        return Next(None, f"{boot.closed}, which only root can read")
    for entry, source in ((boot.default, "grub.cfg"), (boot.setting, "GRUB_DEFAULT")):
        if entry and "saved" in entry:
            saved = _named(boot.saved or "0", boot, newest, kernels)
            return Next(saved, "saved_entry of grubenv" if boot.saved else source)
        if entry:
            return Next(_named(entry, boot, newest, kernels), source)
    return Next(newest, "version order, the newest first")


def is_urgent(state: DriverState, kernel: Kernel) -> bool:
    """Whether a kernel runs, or may boot next."""
    running = state.kernels.running if state.kernels else None
    return kernel.name == running or may_boot_next(state, kernel)


def may_boot_next(state: DriverState, kernel: Kernel) -> bool:
    """Whether a kernel boots next; where that is unknown, whether it is as new as the running one.

    An older kernel boots only where someone has chosen it.
    """
    chosen = next_boot(state).kernel
    if chosen is not None or state.kernels is None:
        return chosen == kernel.name
    return version_order(kernel.name) >= version_order(state.kernels.running)


def bootable(state: DriverState) -> list[Kernel]:
    """Return the installed kernels that can boot, and the one that runs."""
    if state.kernels is None:
        return []
    running = state.kernels.running
    return [each for each in state.kernels.installed if each.image or each.name == running]


def repaired(state: DriverState) -> frozenset[str]:
    """Return the kernels that the deploy repairs: what runs, what may boot next, then the newest.

    They do not depend on what is lacking: the next run has the same ones.
    """

    def order(kernel: Kernel) -> tuple[bool, bool, list[tuple[int, str]]]:
        is_running = state.kernels is not None and kernel.name == state.kernels.running
        return is_running, may_boot_next(state, kernel), version_order(kernel.name)

    first = sorted(bootable(state), key=order, reverse=True)[:MOST_REPAIRED]
    return frozenset(each.name for each in first)


def menu_entry(boot: Boot, kernel: str) -> str | None:
    """Return a kernel's entry of GRUB's menu by ids, as GRUB_DEFAULT takes it; None: not found.

    The first entry of the menu is of whichever kernel is the newest: one of a submenu is taken
    before it, and none that is for recovery.
    """
    entries = [
        each for each in boot.entries if each.kernel == kernel and "-recovery-" not in each.id
    ]
    for entry in sorted(entries, key=lambda each: ("simple" in each.id, each.place)):
        steps = entry.place.split(">")
        places = [">".join(steps[: count + 1]) for count in range(len(steps))]
        ids = [each.id for place in places for each in boot.entries if each.place == place]
        if len(ids) == len(places) and all(re.fullmatch(r"[\w.+-]+", each) for each in ids):
            return ">".join(ids)
    return None


@lru_cache(maxsize=1024)
def version_order(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts kernels as GRUB's menus do, by `sort -V`: 6.1.0-9 before 6.1.0-10."""
    parts = re.findall(r"0*(\d+)|(\D+)", name)
    # As text: a number from a node may have more digits than int takes.
    return [(len(number), number) if number else (-1, text) for number, text in parts]


def _named(entry: str, boot: Boot, newest: str | None, kernels: list[Kernel]) -> str | None:
    """Return the kernel of an entry, by its place, id or title, 1>2 by way of submenus."""
    # GRUB takes the first entry where there is none of that name.
    first = next((each for each in boot.entries if each.place == "0"), None)
    chosen = next((each for each in boot.entries if _is(each, entry, boot.entries)), first)
    if chosen is not None:
        inside = [each for each in boot.entries if each.place.startswith(f"{chosen.place}>")]
        inside.sort(key=lambda each: [int(step) for step in each.place.split(">")])
        return chosen.kernel or next((each.kernel for each in inside if each.kernel), None)
    if entry == "0" and not boot.entries:
        return newest
    # A title, or the id of a boot loader specification's entry, has the kernel's name in it.
    held = [kernel.name for kernel in kernels if kernel.name in entry]
    return max(held, key=len, default=None)


def _is(entry: Entry, wanted: str, entries: tuple[Entry, ...]) -> bool:
    steps, places = wanted.split(">"), entry.place.split(">")
    if len(steps) != len(places):
        return False  # an entry of a submenu is found by way of that alone
    above = [">".join(places[: count + 1]) for count in range(len(places))]
    by_place = {each.place: each for each in entries}
    path = [by_place.get(place) for place in above]
    return all(
        each is not None and step in (each.place.rpartition(">")[2], each.id, each.title)
        for step, each in zip(steps, path, strict=True)
    )


def short(kernel: str | None) -> str | None:
    """A kernel's name without the architecture, which is the same on all nodes."""
    return kernel and kernel.removesuffix(".x86_64")
