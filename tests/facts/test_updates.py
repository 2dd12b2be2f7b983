"""The section on updates by themselves: their patterns are tried on the node, for a short time."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from gpu_node.facts.driver.state import SECTIONS, parse_updates
from gpu_node.facts.probe.protocol import Reading, Readings
from tests import shells

(UPDATES,) = [section for section in SECTIONS if section.name == "driver.updates"]
ENDLESS = "((((.+)+)+)+)+Q"


def asked(folder: Path, shell: str, *patterns: str) -> Reading:
    """What a node says whose unattended-upgrades has these patterns."""
    programs = {
        "unattended-upgrade": "",
        "apt-mark": "echo nvidia-driver-535",
        "apt-config": "\n".join(
            ["cat <<'EOT'", 'APT::Periodic::Unattended-Upgrade "1";']
            + [f'Unattended-Upgrade::Package-Blacklist:: "{each}";' for each in patterns]
            + ["EOT"]
        ),
    }
    path = shells.machine_with(folder, sh=shell)["PATH"]
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    sooner = UPDATES.command.replace("limited 3 ", "limited 0.5 ")
    assert sooner != UPDATES.command
    readings = shells.ask(shell, [replace(UPDATES, command=sooner)], {"PATH": path})
    return readings.sections["driver.updates"]


def test_what_patterns_spare_is_found_on_the_node(tmp_path: Path, shell: str) -> None:
    """As Python takes them: from the beginning, and one that is none is passed over."""
    answer = asked(tmp_path / "bin", shell, "linux-", "[", "vidia", "kmod-.*a$", "it's (1)?")
    found = parse_updates(answer.require())
    assert found.by == ("unattended-upgrades",)
    assert found.patterns == ("linux-", "[", "vidia", "kmod-.*a$", "it's (1)?")
    assert found.spared == ("linux-image-generic", "linux-image-amd64", "kmod-nvidia")
    assert found.held == ("nvidia-driver-535",)


def test_a_pattern_that_takes_for_ever_is_given_up(tmp_path: Path) -> None:
    """Nothing of it is tried on the controller; the answer reports that it could not be tried."""
    answer = asked(tmp_path / "bin", "dash", ENDLESS)
    readings = Readings({"driver.updates": answer})
    begun = time.process_time()
    assert readings.take("driver.updates", parse_updates) is None
    assert time.process_time() - begun < 1
    assert "could not be tried on the node within 3 s" in readings.unread[0].reason
