"""The GPUs on the PCI bus with the lanes of their links, and NVSwitches with their manager."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_node.facts import fabric
from gpu_node.facts.driver.gpus import PARSERS, SECTIONS
from tests.shells import machine_with

(SCRIPT,) = (each.command for each in SECTIONS if each.name == "driver.pci")


def test_the_lanes_of_a_card_and_of_the_port_above_it(shell: str, tmp_path: Path) -> None:
    """The bus has links to the devices, each in the folder of its port; a file may be missing."""
    bus, port = tmp_path / "bus", tmp_path / "pci0000:00" / "0000:00:01.0"
    bus.mkdir()
    cards = {"0000:05:00.0": port, "0000:06:00.0": tmp_path / "pci0000:00"}
    for slot, above in cards.items():
        (above / slot).mkdir(parents=True)
        (bus / slot).symlink_to(above / slot)
        files = {"vendor": "0x10de", "class": "0x030200", "device": "0x20f1"}
        files |= {"current_link_width": "4", "max_link_width": "16"}
        for name, text in files.items():
            (above / slot / name).write_text(f"{text}\n")
    (port / "max_link_width").write_text("8\n")
    env = machine_with(tmp_path / "bin", sh=shell)
    script = SCRIPT.replace("/sys/bus/pci/devices", str(bus))
    done = subprocess.run(
        [str(tmp_path / "bin" / "sh"), "-c", script], env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = PARSERS["driver.pci"][1](done.stdout)
    assert [(each.slot, each.lanes, each.most, each.above, each.narrow) for each in found] == [
        ("0000:05:00.0", 4, 16, 8, "x4 of x8"),
        ("0000:06:00.0", 4, 16, None, ""),
    ]


def test_the_version_of_the_manager_is_asked_where_there_is_a_switch(
    shell: str, tmp_path: Path
) -> None:
    """In the words of `nv-fabricmanager --version`; without a switch the program is not run."""
    (section,) = (each for each in fabric.SECTIONS if each.name == "fabric.switches")
    env = machine_with(tmp_path / "bin", sh=shell) | dict(section.shared)
    manager = tmp_path / "bin" / "nv-fabricmanager"
    manager.write_text("#!/bin/sh\necho Fabric Manager version is : 530.30.02\n")
    manager.chmod(0o755)
    script = section.command.replace("/sys/bus/pci/devices", str(tmp_path / "bus"))
    found = []
    for vendor in ("0x8086", "0x10de"):
        (tmp_path / "bus" / "a").mkdir(parents=True, exist_ok=True)
        for name, text in {"vendor": vendor, "class": "0x068000", "device": "0x22a3"}.items():
            (tmp_path / "bus" / "a" / name).write_text(f"{text}\n")
        run = [str(tmp_path / "bin" / "sh"), "-c", script]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        found.append(fabric.parse_switches(done.stdout))
    assert [each.version for each in found] == [None, "530.30.02"]
    assert [len(each.found) for each in found] == [0, 1]
