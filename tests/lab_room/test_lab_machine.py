"""The lab fits the machine that it runs on: its distribution, limits and networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.lab import apt_sources, limits, network
from gpu_node.lab.errors import LabError

KEY = "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"
MAIN = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm x\nComponents: main\n"
ONE_LINE = "deb http://mirror.example/ubuntu jammy main restricted"
# The file below /etc/apt, an entry there, and whether it is of the distribution itself.
SOURCES = [
    ("a.sources", f"# comment\n{MAIN}{KEY}", True),
    ("a.sources", f"{MAIN}{KEY}".replace("bookworm", "bookworm-security"), True),
    ("a.sources", f"{MAIN}Signed-By: /usr/share/keyrings/vendor.gpg", False),
    ("a.sources", f"Enabled: no\n{MAIN}", False),
    ("a.sources", f"{MAIN}Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----", False),
    ("a.list", ONE_LINE, True),
    ("a.list", ONE_LINE.replace("jammy", "jammy-updates"), True),
    ("a.list", ONE_LINE.replace("jammy", "jammy/updates"), True),
    ("a.list", f"# {ONE_LINE}", False),
    ("a.list", ONE_LINE.replace("deb", "deb [arch=amd64 signed-by=/etc/apt/docker.gpg]"), False),
    ("a.list", ONE_LINE.replace("main restricted", "stable"), False),
    ("a.list", ONE_LINE.replace("jammy", "jammy-backports"), False),
]


@pytest.mark.parametrize(("file", "entry", "is_own"), SOURCES)
def test_sources_of_the_distribution(tmp_path: Path, file: str, entry: str, is_own: bool) -> None:
    """No other one goes into the nodes' tree; without any, the suite is named."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / file).write_text(f"{entry}\n\nTypes: deb\n")
    suite = "bookworm" if file == "a.sources" else "jammy"
    if is_own:
        found = apt_sources.of_this_machine(suite, tmp_path)
        assert found == [entry.removeprefix("# comment\n")]
    else:
        with pytest.raises(LabError, match=f"no source of {suite} main"):
            apt_sources.of_this_machine(suite, tmp_path)


def test_the_suite_of_a_machine() -> None:
    """Only Debian and Ubuntu have one."""
    assert apt_sources.codename('ID=ubuntu\nVERSION_CODENAME="noble"\n') == "noble"
    with pytest.raises(LabError, match="names no VERSION_CODENAME; the lab needs Debian or Ubuntu"):
        apt_sources.codename("ID=centos\n")


RICH = {"nofile": 1048576, "memlock": limits.UNLIMITED, "nproc": 96365}
POOR = {"nofile": 4096, "memlock": 32768, "nproc": 500}
AS_FOUND = ["nofile=1024:20000", "memlock=65536:8388608", "nproc=8192:8192"]


@pytest.mark.parametrize(
    ("hard", "bounding_set", "chosen"),
    [
        (RICH, "000001fffeffffff", AS_FOUND),
        (POOR, "000001fffeffffff", ["nofile=1024:4096", "memlock=32768:32768", "nproc=500:500"]),
        (POOR, "000001ffffffffff", AS_FOUND),  # it may raise limits
    ],
)
def test_limits_of_a_node(hard: dict[str, int], bounding_set: str, chosen: list[str]) -> None:
    """As found in the field, but not more than the machine has."""
    may_raise = limits.may_raise(f"CapEff:\t0000000000000000\nCapBnd:\t{bounding_set}\n")
    assert limits.choose(hard, may_raise) == chosen


@pytest.mark.parametrize(
    ("route", "interface"),
    [("", ""), ("10.168.144.0/24 dev gpu-node-lab\n", ""), ("10.168.144.0/24 dev eth1\n", "eth1")],
)
def test_the_interface_that_has_the_labs_addresses(route: str, interface: str) -> None:
    assert network.interface_of_other(route) == interface
