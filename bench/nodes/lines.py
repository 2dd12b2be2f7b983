"""Nodes of a benchmark with lines of equal rate: each has its own network, sshd and files.

All of them run on this machine, in private namespaces that end with the command.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure.run import Command, Taken, measured
from bench.nodes.cluster import Node, make_key, pin
from bench.nodes.package import find
from bench.nodes.root import as_root
from bench.nodes.sshd import CONFIG, PASSWD, SHADOW

HERE = Path(__file__).parent
# What a line carries in each direction. All of them together are far below what two processors
# encrypt: the lines alone count.
RATE = "40mbit"
SOURCE = "node-000"
PORT = 2222
_CLUSTER = """\
cluster: lines
defaults:
  ssh: {{user: root, key: {key}, port: {port}, mesh: true, \
known_hosts: {folder}/home/.ssh/known_hosts}}
  workspace: {{path: {folder}/tree, source: {source}}}
hosts:
{hosts}
"""


@dataclass(frozen=True)
class Lines:
    """The nodes below a folder: the source of a tree, and those that get it."""

    folder: Path
    hosts: Sequence[Node]

    @property
    def key(self) -> Path:
        """The private key of all nodes' user."""
        return self.folder / "home" / ".ssh" / "id_ed25519"

    @property
    def inventory(self) -> Path:
        return self.folder / "site.yml"

    @property
    def tree(self) -> Path:
        """Where each node has its tree, as the node sees it."""
        return self.folder / "tree"

    def tree_of(self, name: str) -> Path:
        """Where this machine has a node's tree."""
        return self.folder / "nodes.d" / name / "tree"

    def measured(self, words: Sequence[str]) -> Taken:
        """Run a command on the controller of these nodes. Raises Failed, NoSshd.

        What it takes to start and end the nodes does not count.
        """
        sshd = find()
        spaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        given = [str(HERE / "lines.sh"), str(self.folder), sshd.program, RATE]
        before = [*as_root(), "env", f"LD_LIBRARY_PATH={sshd.libraries}", *spaces, "sh", *given]
        return measured(Command(words, self.folder), self.folder / "run", before)


def prepared(folder: Path, receivers: int) -> Lines:
    """Write the files of a source and of so many nodes; `folder` is emptied for them."""
    shutil.rmtree(folder, ignore_errors=True)
    ssh = folder / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    names = [SOURCE, *(f"node-{each + 1:03}" for each in range(receivers))]
    hosts = [Node(name, f"10.168.145.{10 + each}") for each, name in enumerate(names)]
    found = Lines(folder, hosts)
    for host in hosts:
        found.tree_of(host.name).mkdir(parents=True)
    found.tree.mkdir()
    pin(ssh / "known_hosts", hosts, PORT, make_key(folder / "host_key"))
    (folder / "authorized_keys").write_text(f"{make_key(found.key)}\n")
    files = {
        "sshd.conf": CONFIG.format(port=PORT, folder=folder),
        "passwd": PASSWD.format(home=folder / "home"),
        "shadow": SHADOW,
        "hosts": "".join(["127.0.0.1 localhost\n", *(f"{o.address} {o.name}\n" for o in hosts)]),
        "nodes": "".join(f"{host.name} {host.address}\n" for host in hosts),
        "site.yml": _CLUSTER.format(
            folder=folder,
            key=found.key,
            port=PORT,
            source=SOURCE,
            hosts="\n".join(f"  {host.name}: {{address: {host.address}}}" for host in hosts),
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return found
