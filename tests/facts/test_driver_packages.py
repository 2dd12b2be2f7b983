"""What dpkg and rpm say of the driver's packages that the inventory names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.facts.driver import state as driver
from gpu_node.facts.driver.packages import NAME, DriverPackages, parse_packages, sections
from gpu_node.facts.probe.request import ProbeRequest, request_of
from tests.shells import as_lines, ask, run


def test_both_families_are_asked_about() -> None:
    """Which one a node is of shows when it is asked; without names there is no such section."""
    data = {"driver_packages_apt": ["nvidia-dkms-535"], "driver_packages_rpm": "a,b"}
    named = request_of(data)
    assert named.packages == ("nvidia-dkms-535", "a", "b")
    assert [each.name for each in driver.sections(named)][-1] == "driver.packages"
    assert sections(ProbeRequest().packages) == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nvidia-dkms-535 ii  535.154.05-0ubuntu1", {"nvidia-dkms-535": "535.154.05-0ubuntu1"}),
        ("nvidia-dkms-535 hi  535.154.05-1", {"nvidia-dkms-535": "535.154.05-1"}),
        ("kmod-nvidia ii 3:535.154.05-1.el7", {"kmod-nvidia": "535.154.05-1.el7"}),
        ("nvidia-dkms-535 iF  535.154.05-1", {"nvidia-dkms-535": ""}),
        ("nvidia-dkms-535 iHR 535.154.05-1", {"nvidia-dkms-535": ""}),
        ("nvidia-dkms-535 rc  535.154.05-1", {}),
        ("nvidia-dkms-535 un ", {}),
        ("", {}),
    ],
)
def test_a_line(line: str, expected: dict[str, str]) -> None:
    """Whole, by half, or only its configuration; an epoch is none of the driver's version."""
    assert parse_packages(line) == expected


def test_of_this_machine(shell: str) -> None:
    """dpkg itself: one that is there, and one that it has never heard of."""
    readings = ask(shell, sections(["dpkg", "no-such-package"]))
    found = readings.take(NAME, parse_packages)
    assert found is not None and list(found) == ["dpkg"] and found["dpkg"][0].isdigit()


def test_rpm(tmp_path: Path, shell: str) -> None:
    """A stand-in for rpm, on a machine whose dpkg has no list."""
    program = tmp_path / "rpm"
    program.write_text(
        "#!/bin/sh\ncase $* in *lacks) exit 1 ;; *--qf*) echo a ii 535.154.05-1 ;; esac\n"
    )
    program.chmod(0o755)
    fact = DriverPackages()
    script = fact.command(["a", "lacks"])
    script = script.replace("/var/lib/dpkg/status", f"{tmp_path}/none")
    script = script.replace("/var/lib/rpm", str(tmp_path))
    (tmp_path / "Packages").touch()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert fact.process(as_lines(run(shell, script, env=env).stdout)) == {
        "versions": {"a": "535.154.05-1"}
    }
