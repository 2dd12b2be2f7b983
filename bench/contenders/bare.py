"""The two measures for a report: OpenSSH with the same script, and pyinfra with one fact of it."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contenders.setup import Setup
from bench.measure.run import Command
from bench.places import BIN

HERE = Path(__file__).parent
# OpenSSH's default exchange takes 60 ms of a processor for each login.
_OPTIONS = (
    *("-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"),
    *("-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "StrictHostKeyChecking=yes"),
    *("-o", "KexAlgorithms=curve25519-sha256", "-o", "UpdateHostKeys=no", "-o", "LogLevel=ERROR"),
)
_INVENTORY = """\
hosts = (
    [
{hosts}
    ],
    {{
        "ssh_user": {user!r},
        "ssh_port": {port},
        "ssh_key": {key!r},
        "ssh_known_hosts_file": {known_hosts!r},
        "ssh_strict_host_key_checking": "yes",
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
    }},
)
"""
_PARALLEL = "50"


def openssh(setup: Setup) -> Command:
    """Return the floor: ssh for each node, 50 at a time."""
    folder = setup.folder / "openssh"
    (folder / "answers").mkdir(parents=True, exist_ok=True)
    lines = [f"{host.name} {host.address}\n" for host in setup.hosts]
    (folder / "nodes").write_text("".join(lines))
    login = setup.login
    options = (
        *_OPTIONS,
        *("-i", str(login.key), "-p", str(login.port), "-l", login.user),
        *("-o", f"UserKnownHostsFile={login.known_hosts}", "-o", "GlobalKnownHostsFile=none"),
    )
    program = [sys.executable, "-S", "-E", str(HERE / "floor.py")]
    return Command([*program, "nodes", str(setup.script), "answers", *options], folder)


def pyinfra(setup: Setup) -> Command:
    """Return pyinfra's own command with one fact, which carries the same script."""
    folder = setup.folder / "pyinfra"
    folder.mkdir(parents=True, exist_ok=True)
    login = setup.login
    text = _INVENTORY.format(
        hosts="\n".join(
            f"        ({host.name!r}, {{'ssh_hostname': {host.address!r}}}),"
            for host in setup.hosts
        ),
        user=login.user,
        port=login.port,
        key=str(login.key),
        known_hosts=str(login.known_hosts),
    )
    (folder / "inventory.py").write_text(text)
    (folder / "probe_fact.py").write_text((HERE / "probe_fact.py").read_text())
    (folder / "script.sh").write_text(setup.script.read_text())
    words = [str(BIN / "pyinfra"), "--parallel", _PARALLEL, "inventory.py"]
    return Command([*words, "fact", "probe_fact.Probe"], folder)
