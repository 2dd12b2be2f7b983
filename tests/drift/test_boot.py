"""Which kernel boots next: by place, id or title of GRUB's menu, or by the newest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.driver.boot import menu_entry, next_boot, version_order
from gpu_node.facts.driver.kernels import Boot
from tests import case_files
from tests.drift import states

CASES = Path(__file__).parents[1] / "facts" / "cases"
MENU = case_files.find(CASES, "driver.next", "ubuntu").data["expect"]["boot"]
NEW, OLD = "5.15.0-122-generic", "5.15.0-119-generic"
BLS = "0f3c5b1d7e9a4c6f8b2d0e1a3c5b7d9f-" + OLD


def boots(**change: Any) -> tuple[str | None, str]:
    """What boots next on an Ubuntu node with two kernels, when its settings are changed."""
    kernels = [
        {"name": name, "headers": True, "image": True, "module": None} for name in (OLD, NEW)
    ]
    driver = {
        "kernels": {"running": OLD, "installed": kernels},
        "boot": {**MENU, "default": "0", "setting": "0", **change},
    }
    return next_boot(states.state({"driver": driver}).driver)


@pytest.mark.parametrize(
    ("change", "kernel", "source"),
    [
        ({}, NEW, "grub.cfg"),
        ({"default": "1>2"}, OLD, "grub.cfg"),
        ({"default": "1"}, NEW, "grub.cfg"),
        ({"default": "gnulinux-advanced-f00d>gnulinux-5.15.0-119-generic-advanced-f00d"}, OLD,
         "grub.cfg"),
        ({"default": "Advanced options for Ubuntu>Ubuntu, with Linux 5.15.0-119-generic"}, OLD,
         "grub.cfg"),
        ({"default": "1>gnulinux-5.15.0-119-generic-advanced-f00d"}, OLD, "grub.cfg"),
        ({"default": "gnulinux-5.15.0-119-generic-advanced-f00d"}, NEW, "grub.cfg"),
        ({"default": "2"}, None, "grub.cfg"),
        ({"default": "7"}, NEW, "grub.cfg"),
        ({"default": "${saved_entry}", "saved": "1>2"}, OLD, "saved_entry of grubenv"),
        ({"default": "${saved_entry}", "saved": None}, NEW, "grub.cfg"),
        ({"once": "1>2"}, OLD, "next_entry of grubenv, once"),
        ({"once": "1>2", "grubby": f"/boot/vmlinuz-{NEW}"}, OLD, "next_entry of grubenv, once"),
        ({"grubby": f"/boot/vmlinuz-{OLD}"}, OLD, "grubby"),
        ({"once": BLS, "entries": []}, OLD, "next_entry of grubenv, once"),
        ({"default": None, "entries": []}, NEW, "GRUB_DEFAULT"),
        ({"default": None, "entries": [], "setting": "saved", "saved": f"Ubuntu ({OLD})"}, OLD,
         "saved_entry of grubenv"),
        ({"default": None, "setting": None, "entries": []}, NEW,
         "version order, the newest first"),
        ({"closed": "/boot/grub/grub.cfg", "default": None}, None,
         "/boot/grub/grub.cfg, which only root can read"),
    ],
)  # fmt: skip
def test_which_kernel_boots_next(change: dict[str, Any], kernel: str | None, source: str) -> None:
    """The first source that has a word on it decides, and is named."""
    assert boots(**change) == (kernel, source)


def test_settings_that_could_not_be_read() -> None:
    """Which kernel boots next is unknown, and nothing is assumed."""
    assert next_boot(states.state({"driver": {"boot": None}}).driver).kernel is None


def test_the_order_is_that_of_sort() -> None:
    """Numbers as numbers, as `sort -V` has them."""
    names = ["6.1.0-9-amd64", "6.1.0-10-amd64", "6.1.0-10-cloud-amd64", "6.10.0-1-amd64"]
    assert sorted(reversed(names), key=version_order) == names


def test_a_kernels_entry_of_the_menu() -> None:
    """By ids, of the submenu where it has one, and never that for recovery."""
    boot = Boot.model_validate(MENU)
    above = "gnulinux-advanced-f00d>gnulinux-"
    assert menu_entry(boot, NEW) == f"{above}{NEW}-advanced-f00d"
    assert menu_entry(boot, OLD) == f"{above}{OLD}-advanced-f00d"
    assert menu_entry(boot, "4.4.4") is None
    alone = boot.model_copy(update={"entries": boot.entries[:1]})
    assert menu_entry(alone, NEW) == "gnulinux-simple-f00d"
    unsafe = boot.entries[0].model_copy(update={"id": "$(reboot)"})
    assert menu_entry(boot.model_copy(update={"entries": (unsafe,)}), NEW) is None
