"""Other kinds of nodes: the apt family, and an SSH user with sudo."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory
from tests.e2e.on_lab import converge, drift, on

pytestmark = pytest.mark.lab

APT_NODE = "v100-02"
KEY = "mkdir -p {home}/.ssh && printf '%s\\n' '{key}' >{home}/.ssh/authorized_keys"


@pytest.fixture
def apt_node(inventory: WriteInventory) -> str:
    """An inventory of v100-02 alone, where the lab's key is authorised."""
    nodes.reset([APT_NODE])
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(APT_NODE, KEY.format(home="/root", key=key))
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["hosts"] = {APT_NODE: {"address": "10.168.144.6", "group": "v100"}}
    # No driver and no Python environment is here yet, and its packages are of another family.
    del cluster["defaults"]["driver"], cluster["defaults"]["toolchain"]["packages"]
    nccl = cluster["defaults"]["nccl"]
    del nccl["environments"], nccl["copy_from"]
    nccl["version"] = "2.18.1+cuda12.1"
    nccl["repository"]["url"] = f"http://{roster.MIRROR_ADDRESS}/deb/"
    file.write_text(yaml.safe_dump(cluster))
    return path


def test_the_apt_family_converges(apt_node: str) -> None:
    """A bare Debian or Ubuntu node: drift, converge, proved, no change after that."""
    assert drift(apt_node).code == 2
    done = converge(apt_node)
    assert done.code == 0, done.err
    assert drift(apt_node).code == 0
    assert converge(apt_node).executed == {}
    assert on(APT_NODE, "su -l root -c 'ulimit -Sn'").strip() == "16384"
    assert on(APT_NODE, "apt-mark showhold").split() == ["libnccl-dev", "libnccl2"]


def test_an_ssh_user_with_sudo(apt_node: str) -> None:
    """The limits are judged and set for the user that jobs run as; changes are made with sudo."""
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(APT_NODE, "useradd -m -s /bin/bash train")
    on(APT_NODE, KEY.format(home="/home/train", key=key))
    on(APT_NODE, "chown -R train: /home/train/.ssh; chmod 700 /home/train/.ssh")
    on(APT_NODE, "echo 'train ALL=(ALL) ALL' >/etc/sudoers.d/train")
    file = Path(apt_node).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["ssh"].update(user="train", sudo=True)
    file.write_text(yaml.safe_dump(cluster))

    report = drift(apt_node)
    assert report.code == 1  # what root knows is not read
    assert report.json["hosts"][APT_NODE]["facts"]["limits"]["user"]["name"] == "train"
    refused = converge(apt_node)
    assert refused.code == 1
    assert "sudo asks train for a password" in refused.err and "--ask-sudo-password" in refused.err
    on(APT_NODE, "echo 'train ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/train")
    on(APT_NODE, "echo 'Defaults requiretty' >>/etc/sudoers.d/train")
    findings = drift(apt_node).json["hosts"][APT_NODE]["findings"]
    (fix,) = (each["fix"] for each in findings if each["rule"] == "ssh.sudo-refused")
    assert "`Defaults:train !requiretty`" in fix
    refused = converge(apt_node)
    assert refused.code == 1
    assert "requiretty is set in the node's sudoers" in refused.err
    on(APT_NODE, "echo 'Defaults:train !requiretty' >>/etc/sudoers.d/train")
    done = converge(apt_node)
    assert done.code == 0, done.err
    assert drift(apt_node).code == 0
    assert converge(apt_node).executed == {}
    assert on(APT_NODE, "su -l train -c 'ulimit -Sn'").strip() == "16384"
