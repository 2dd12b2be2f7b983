"""Ansible, alone and with mitogen: a play of 20 read-only checks, with their quickest settings."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.contenders.setup import Setup
from bench.measure.run import Command
from bench.places import OTHERS

HERE = Path(__file__).parent
CHECKS = HERE / "checks.yml"
_CONFIG = """\
[defaults]
inventory = hosts.ini
forks = 50
host_key_checking = true
retry_files_enabled = false
local_tmp = {folder}/local
remote_tmp = {folder}/remote
{strategy}
[ssh_connection]
pipelining = true
control_path_dir = {sockets}
ssh_args = -F none -o ControlMaster=auto -o ControlPersist=60s {options}
"""
_MITOGEN = """\
strategy_plugins = {plugins}
strategy = mitogen_linear
"""


def ansible(setup: Setup) -> Command:
    """Return the play with Ansible alone: pipelining, and one connection a node for all tasks."""
    return _play(setup, setup.folder / "ansible", "")


def mitogen(setup: Setup) -> Command:
    """Return the play with mitogen's strategy."""
    found = [*OTHERS.parent.glob("lib/python3*/site-packages/ansible_mitogen/plugins/strategy")]
    return _play(setup, setup.folder / "mitogen", _MITOGEN.format(plugins=found[0]))


def _play(setup: Setup, folder: Path, strategy: str) -> Command:
    folder.mkdir(parents=True, exist_ok=True)
    # The path of a socket has at most 108 bytes.
    sockets = setup.folder / "cp"
    login = setup.login
    options = (
        f"-o IdentitiesOnly=yes -o KexAlgorithms=curve25519-sha256 "
        f"-o UserKnownHostsFile={login.known_hosts} -o StrictHostKeyChecking=yes"
    )
    config = _CONFIG.format(folder=folder, strategy=strategy, options=options, sockets=sockets)
    (folder / "ansible.cfg").write_text(config)
    known = (
        f"ansible_user={login.user} ansible_port={login.port} "
        f"ansible_ssh_private_key_file={login.key} ansible_python_interpreter={_python()}"
    )
    hosts = [f"{host.name} ansible_host={host.address} {known}\n" for host in setup.hosts]
    (folder / "hosts.ini").write_text("[all]\n" + "".join(hosts))
    words = [str(OTHERS / "ansible-playbook"), str(CHECKS)]
    return Command(
        words, folder, environment={"ANSIBLE_CONFIG": str(folder / "ansible.cfg")}, sockets=sockets
    )


def _python() -> str:
    """Return the Python that stands for that of a node."""
    return str(getattr(sys, "_base_executable", sys.executable))
