"""The mesh of three nodes: every login works, also after a rename and a re-installation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.facts.probe.managed_block import BEGIN
from gpu_node.lab import nodes, roster
from tests.e2e.conftest import others_off
from tests.e2e.on_lab import (
    Converge,
    Run,
    changed,
    content,
    converge,
    drift,
    dry,
    manifest,
    on,
    run,
)

pytestmark = pytest.mark.lab

NODES = ("a100-01", "v100-01", "v100-02")
# What the nodes differ in, and the inventory does not manage: warnings.
UNMANAGED = {"driver.differs", "shm.differs", "limits.differs", "toolchain.cmake-differs"}
RENAMED = "v100-09"
ADDRESS = roster.NODES["v100-01"].address
# A user's own lines, with all that an editor leaves behind; authorized_keys has the lab's besides.
LINES = {
    "/root/.ssh/authorized_keys": "# zhang\\r\\nssh-rsa AAAAB3NzaC1yc2E= zhang@home\\t",
    "/root/.ssh/known_hosts": "|1|odd|odd ssh-rsa AAAA\\n  # old\\r\\n",
    "/etc/ssh/ssh_known_hosts": "nas,192.0.2.77 ssh-rsa AAAAB3NzaC1yc2E=",
    "/etc/hosts": "\\n192.0.2.77\\tnas  # zhang\\r\\n# the end",
}
# What an installer leaves: new host keys, the controller let in again, and nothing of the mesh.
INSTALL_ANEW = """
rm -f /etc/ssh/ssh_host_* /etc/ssh/ssh_known_hosts /root/.ssh/id_ed25519*
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
grep gpu-node-lab /root/.ssh/authorized_keys >/root/keys
cat /root/keys >/root/.ssh/authorized_keys
printf '127.0.0.1 localhost\\n' >/etc/hosts
"""


class Story:
    """The cluster's files, and what was seen on the way."""

    def __init__(self, inventory: str) -> None:
        self.inventory = inventory
        self.file = Path(inventory).with_suffix(".yml")
        self.known_hosts = self.file.with_name("known_hosts")
        self.names = dict(zip(NODES, NODES, strict=True))

    def rename(self, old: str, new: str) -> None:
        """Give a node another name in the inventory."""
        cluster = yaml.safe_load(self.file.read_text())
        cluster["hosts"] = {
            new if name == old else name: host for name, host in cluster["hosts"].items()
        }
        self.file.write_text(yaml.safe_dump(cluster))
        self.names[old] = new

    def findings(self, *options: str) -> set[tuple[str, str]]:
        """Node and rule of all findings of ssh; the inventory does not manage the other areas.

        In these the nodes differ: each of those findings is a difference between nodes.
        """
        hosts = drift(self.inventory, *options).json["hosts"]
        assert all(host["status"] in ("ok", "drift") for host in hosts.values())
        found = {(name, each["rule"]) for name in hosts for each in hosts[name]["findings"]}
        beside = {rule for _, rule in found if not rule.startswith("ssh.")}
        assert beside <= UNMANAGED
        return {(name, rule) for name, rule in found if rule.startswith("ssh.")}

    def assert_at_rest(self) -> None:
        """Nothing is reported, and another converge runs nothing and touches nothing."""
        assert self.findings() == set()
        before = {node: manifest(node) for node in NODES}
        again = converge(self.inventory)
        assert (again.code, again.executed) == (0, {})
        assert not any(changed(before[node], manifest(node)) for node in NODES)

    def failed_logins(self, user: str = "root") -> list[str]:
        """Return the pairs that cannot log in, by plain ssh, in both directions."""
        targets = [*self.names.values(), *(roster.NODES[node].address for node in NODES)]
        script = "".join(
            f"ssh -o BatchMode=yes {target} true </dev/null || echo {target}\n"
            for target in targets
        )
        command = f"su -s /bin/sh {user} -c {shlex.quote(script)}"
        return [f"{node} -> {bad}" for node in NODES for bad in on(node, command).split()]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Three nodes as found, with a user's lines, and an inventory that manages only the mesh."""
    nodes.reset(NODES)
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on("v100-02", f"mkdir -p -m 700 /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")
    for node in NODES:
        for path, text in LINES.items():
            on(node, f"printf '{text}' >>{path}")
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "known_hosts").write_text(roster.KNOWN_HOSTS.read_text())
    hosts = {node: {"address": roster.NODES[node].address, "group": node[:4]} for node in NODES}
    ssh = {"user": "root", "key": str(roster.CLIENT_KEY), "known_hosts": "known_hosts"}
    cluster: dict[str, Any] = {
        "cluster": "mesh",
        "defaults": {"ssh": {**ssh, "mesh": True}},
        "groups": {"a100": {}, "v100": {}},
        "hosts": hosts,
    }
    cluster["defaults"]["checks"] = others_off(cluster)
    (folder / "lab.yml").write_text(yaml.safe_dump(cluster))
    (folder / "lab.py").write_text((roster.REPOSITORY / "inventories" / "lab.py").read_text())
    return Story(str(folder / "lab.py"))


@pytest.fixture(scope="module")
def before(story: Story) -> dict[tuple[str, str], bytes]:
    """A user's files as they were."""
    return {(node, path): content(node, path) for node in NODES for path in LINES}


@pytest.fixture(scope="module")
def as_found(story: Story) -> Run:
    """The report before anything was done."""
    return drift(story.inventory)


def test_as_found(as_found: Run) -> None:
    """No node has a key, a known host or a name; Debian's line resolves one name to itself."""
    assert as_found.code == 2
    for node in NODES:
        findings = as_found.json["hosts"][node]["findings"]
        assert {each["rule"] for each in findings} >= {
            *("ssh.key-missing", "ssh.not-authorised", "ssh.unknown-host-key"),
            *("ssh.name-unresolved", "ssh.no-login"),
        }
    (own,) = (
        each
        for each in as_found.json["hosts"]["v100-02"]["findings"]
        if each["rule"] == "ssh.name-unresolved" and each["found"].startswith("v100-02: ")
    )
    assert own["fixable"] and own["subject"] == "v100-02"
    assert own["found"].startswith("v100-02: resolves to 127.0.1.1")
    assert own["fix"].startswith("a # before line 2 of /etc/hosts")


@pytest.fixture(scope="module")
def planned(as_found: Run, story: Story) -> dict[str, list[str]]:
    """What a dry run announces."""
    return dry(story.inventory)


@pytest.fixture(scope="module")
def converged(
    planned: dict[str, list[str]], before: dict[tuple[str, str], bytes], story: Story
) -> Converge:
    """One converge of all three nodes."""
    return converge(story.inventory)


def test_one_converge(converged: Converge, planned: dict[str, list[str]]) -> None:
    """It does what the dry run announced, on every node, and is proved."""
    assert converged.code == 0, converged.err
    assert converged.executed == planned
    assert {tuple(sorted(hosts)) for hosts in planned.values()} == {NODES}


def test_every_pair_logs_in(converged: Converge, story: Story) -> None:
    """By name and by address, each node to itself as well: pdsh does that."""
    assert story.failed_logins() == []


def test_it_is_at_rest(converged: Converge, story: Story) -> None:
    """The report is clean, and a second run touches nothing."""
    story.assert_at_rest()


def test_a_key_stays_on_its_node(converged: Converge) -> None:
    """Each node has another key, which only its owner can read."""
    keys = {on(node, "cut -d' ' -f2 /root/.ssh/id_ed25519.pub") for node in NODES}
    assert len(keys) == len(NODES)
    modes = {on(node, "stat -c '%a %U' /root/.ssh/id_ed25519").strip() for node in NODES}
    assert modes == {"600 root"}


def test_a_key_is_of_use_from_its_node_alone(converged: Converge) -> None:
    """Taken elsewhere a node's key opens nothing."""
    stolen = on("v100-02", "cat /root/.ssh/id_ed25519")
    message = on(
        "a100-01",
        f"umask 077; echo '{stolen}' >/root/stolen; ssh -o BatchMode=yes -o IdentitiesOnly=yes "
        "-i /root/stolen -o IdentityFile=none v100-01 true 2>&1; echo $?; rm /root/stolen",
    )
    assert "Permission denied" in message and message.endswith("255\n")


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("path", LINES)
def test_users_bytes_stay(
    converged: Converge, before: dict[tuple[str, str], bytes], node: str, path: str
) -> None:
    """Our block is first; the rest is unchanged, except Debian's line."""
    after = content(node, path)
    had = before[node, path]
    if path == "/etc/hosts" and node == "v100-02":
        line = b"127.0.1.1   v100-02\n"
        had = had.replace(line, b"#gpu-node# " + line)
    assert after.endswith(had)
    ours = after.removesuffix(had).decode()
    assert ours == "" if path == "/root/.ssh/known_hosts" else ours.startswith(f"{BEGIN}\n")


def failing(node: str, since: str, source: str) -> int:
    """How many logins from an address the sshd of a node logged as not accepted after `since`."""
    new = nodes.logs(node).removeprefix(since)
    there = re.escape(roster.NODES[source].address)
    begun = set(re.findall(rf"Connection from {there} port (\d+)", new))
    return len(begun - set(re.findall(rf"Accepted \S+ for \S+ from {there} port (\d+)", new)))


def test_logins_that_fail_are_few(converged: Converge, story: Story) -> None:
    """Newer sshd punishes them: a report tries one by name and one by address, no others."""
    path = "/root/.ssh/authorized_keys"
    on("v100-02", f"cp -p {path} /root/kept && sed -i '/gpu-node:a100-01$/d' {path}")
    since = nodes.logs("v100-02")
    found = story.findings()
    counted = {source: failing("v100-02", since, source) for source in NODES}
    on("v100-02", f"cat /root/kept >{path} && rm /root/kept")
    assert ("a100-01", "ssh.no-login") in found
    assert counted == {"a100-01": 2, "v100-01": 0, "v100-02": 0}


@pytest.mark.lab_slow
def test_one_key_on_two_nodes(converged: Converge, story: Story) -> None:
    """As in a cloned image: both are named, and the next step is right."""
    stolen = on("a100-01", "cat /root/.ssh/id_ed25519")
    on("v100-02", f"cd /root/.ssh && rm id_ed25519.pub && echo '{stolen.strip()}' >id_ed25519")
    shared = {each for each in story.findings() if each[1] == "ssh.key-shared"}
    assert shared == {("a100-01", "ssh.key-shared"), ("v100-02", "ssh.key-shared")}
    on("v100-02", "mv /root/.ssh/id_ed25519 /root/.ssh/old")
    done = converge(story.inventory)
    assert done.code == 0, done.err
    assert story.findings() == set() and story.failed_logins() == []


@pytest.mark.lab_slow
def test_another_user_trains(converged: Converge, story: Story) -> None:
    """The mesh is that of the training user, whatever user the deploy logs in as."""
    for node in NODES:
        on(node, "useradd -m -s /bin/bash train && chmod 775 /home/train")
    options = ("--data", "launcher_user=train")
    done = converge(story.inventory, *options)
    assert done.code == 0, done.err
    assert converge(story.inventory, *options).executed == {}
    assert story.failed_logins("train") == []
    files = on("a100-01", "stat -c '%a %U %n' /home/train /home/train/.ssh/*").splitlines()
    assert files == [
        "755 train /home/train",
        "600 train /home/train/.ssh/authorized_keys",
        "600 train /home/train/.ssh/id_ed25519",
        "644 train /home/train/.ssh/id_ed25519.pub",
    ]


@pytest.fixture(scope="module")
def renamed(converged: Converge, story: Story) -> Run:
    """v100-01 has another name in the inventory; the report of that."""
    story.rename("v100-01", RENAMED)
    return drift(story.inventory)


def test_a_renamed_node_heals(renamed: Run, story: Story) -> None:
    """One converge: the new name works everywhere, and no line of the old one remains."""
    assert renamed.code == 2
    done = converge(story.inventory)
    assert done.code == 0, done.err
    assert story.failed_logins() == []
    for node in NODES:
        for path in ("/etc/hosts", "/etc/ssh/ssh_known_hosts", "/root/.ssh/authorized_keys"):
            assert "v100-01" not in on(node, f"cat {path}")


@pytest.fixture(scope="module")
def fingerprints(renamed: Run, story: Story) -> tuple[str, str]:
    """The node is installed anew: its host key's fingerprint before and after."""
    assert converge(story.inventory).code == 0
    asked = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2"
    old = on("v100-01", asked).strip()
    on("v100-01", INSTALL_ANEW)
    on("v100-01", "kill -HUP 1; sleep 1")  # sshd reads its keys anew
    return old, on("v100-01", asked).strip()


def test_a_new_host_key_is_refused(fingerprints: tuple[str, str], story: Story) -> None:
    """Report and deploy stop at that node with both fingerprints and the next step."""
    pinned, offered = fingerprints
    pins = story.known_hosts.read_bytes()
    report = drift(story.inventory)
    assert report.code == 1
    host = report.json["hosts"][RENAMED]
    assert host["status"] == "unreachable"
    done = converge(story.inventory)
    assert (done.code, done.failed) == (1, [RENAMED])
    for message in (host["error"], done.err):
        assert f"pinned ssh-ed25519 {pinned}, offered ssh-ed25519 {offered}" in message
        assert f"gpu-node host-key {story.inventory} {RENAMED} --accept {offered}" in message
    assert "ssh-keygen -R" not in done.err
    assert story.known_hosts.read_bytes() == pins


def test_only_the_right_fingerprint_is_taken(fingerprints: tuple[str, str], story: Story) -> None:
    """Both are shown; the old one, or any other, changes nothing."""
    pinned, offered = fingerprints
    pins = story.known_hosts.read_bytes()
    shown = run("gpu-node", "host-key", story.inventory, RENAMED)
    assert shown.code == 2
    assert pinned in shown.out and offered in shown.out
    refused = run("gpu-node", "host-key", story.inventory, RENAMED, "--accept", pinned)
    assert refused.code == 1
    assert "nothing was changed" in refused.err
    assert story.known_hosts.read_bytes() == pins


@pytest.fixture(scope="module")
def acknowledged(fingerprints: tuple[str, str], story: Story) -> Converge:
    """The new key is acknowledged, and the cluster converged."""
    before = story.known_hosts.read_text().splitlines()
    _, offered = fingerprints
    done = run("gpu-node", "host-key", story.inventory, RENAMED, "--accept", offered)
    assert done.code == 0, done.err
    after = story.known_hosts.read_text().splitlines()
    changed = [old.split()[0] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [ADDRESS]
    return converge(story.inventory)


def test_a_node_installed_anew_heals(acknowledged: Converge, story: Story) -> None:
    """It has a key again, is authorised and known: every pair works, and nothing changes."""
    assert acknowledged.code == 0, acknowledged.err
    assert story.failed_logins() == []
    story.assert_at_rest()
    assert run("gpu-node", "host-key", story.inventory, RENAMED).code == 0


@pytest.mark.lab_slow
def test_a_run_of_one_node_leaves_the_others_lines(acknowledged: Converge, story: Story) -> None:
    """With --limit nothing is concluded about nodes that were not asked."""
    path = "/root/.ssh/authorized_keys"
    before = on("a100-01", f"cat {path}")
    assert story.findings("--limit", "a100-01") == set()
    on("a100-01", f"sed -i '/gpu-node:a100-01$/d' {path}")
    done = converge(story.inventory, "--limit", "a100-01")
    assert done.code == 0, done.err
    assert on("a100-01", f"cat {path}") == before
