"""`@gpu-node/site.yml`, and copies of lab.py: what pyinfra gets, and how it reaches the nodes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from paramiko import AuthenticationException, ECDSAKey, SSHException
from pyinfra.api import Config, Inventory, State
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient.client import SSHClient
from typing_extensions import override

from gpu_node.facts.ask import pyinfra_file
from gpu_node.inventories import pyinfra_groups
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.connection import connector, names
from gpu_node.inventories.connection.client import Client
from gpu_node.inventories.connection.connector import Connector, adopt
from gpu_node.inventories.schema import load
from tests.commands import BIN, Ended, run
from tests.inventories.conftest import MINE, ask, loaded, refused
from tests.onboarding.serving import Sshd

CLUSTER = """\
cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts, port: 1}
  shm: {size: 8G}
groups:
  a100: {limits: {nofile: 65536}}
  v100: {}
hosts:
  a100-01: {address: 127.0.0.4, group: a100, toolchain: {packages: {six: "1.16.0"}}}
  v100-01: {address: 127.0.0.5, group: v100}
  spare: {address: 127.0.0.6}
"""
COPY = """\
from gpu_node.inventories.groups import groups_of

groups = groups_of(__file__)
{edit}
globals().update(groups)
del groups
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `cluster` with a cluster file; the folder that it is in is the working one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "site.yml").write_text(CLUSTER)
    (folder / "known_hosts").touch()
    MINE.write_private_key_file(str(folder / "key"))
    return folder


def copied(site: Path, edit: str = "") -> Inventory:
    """Load a copy of lab.py that edits the groups."""
    file = site / f"site{abs(hash(edit))}.py"  # pyinfra keeps the code of each path
    file.write_text(COPY.format(edit=edit))
    (site / "site.yml").replace(file.with_suffix(".yml"))
    try:
        return loaded(str(file))
    finally:
        file.with_suffix(".yml").replace(site / "site.yml")


def groups(inventory: Inventory) -> dict[str, list[str]]:
    """Return the groups of each host, but for the one of the file's name."""
    return {
        host.name: [each for each in host.groups if not each.startswith("site")]
        for host in inventory
    }


def test_one_name_in_all_places() -> None:
    """Of the entry point, of the facts' room, which imports nothing of this one, and here."""
    found = entry_points(group="pyinfra.connectors")[names.NAME].load()
    assert found is Connector
    assert pyinfra_file.CONNECTOR == names.NAME
    assert pyinfra_file.INVENTORY_DATA == names.INVENTORY


@pytest.mark.parametrize("is_absolute", [False, True])
def test_plain_names_data_and_groups(site: Path, is_absolute: bool) -> None:
    """The file's stem is a group of all, as pyinfra makes it of an inventory file."""
    inventory = loaded(f"@gpu-node/{site if is_absolute else 'cluster'}/site.yml")
    assert {host.name: host.groups for host in inventory} == {
        "a100-01": ["a100", "site"],
        "v100-01": ["v100", "site"],
        "spare": ["site"],
    }
    assert {host.connector_cls for host in inventory} == {Connector}
    data = inventory.get_host("a100-01").data
    assert (data.ssh_hostname, data.shm_size, data.limits_nofile) == ("127.0.0.4", "8G", 65536)
    assert data.ssh_key == str(site / "key")
    assert data.gpu_node_inventory == "cluster/site.yml"


def test_a_group_of_the_file_s_name_is_that_group(site: Path) -> None:
    (site / "site.yml").rename(site / "a100.yml")
    inventory = loaded("@gpu-node/cluster/a100.yml")
    assert [host.name for host in inventory if "a100" in host.groups] == ["a100-01"]


def test_the_file_beats_group_data_in_the_direct_form(site: Path) -> None:
    """Its values are host data there; what it does not set comes from group_data."""
    (site.parent / "group_data").mkdir()
    for group in ("all", "site", "a100"):
        text = f"shm_size = '1G'\nlimits_nofile = 1\ncolour = {group!r}\n"
        (site.parent / "group_data" / f"{group}.py").write_text(text)
    inventory = loaded("@gpu-node/cluster/site.yml")
    ours, other = (inventory.get_host(name).data for name in ("a100-01", "v100-01"))
    assert (ours.shm_size, ours.limits_nofile, ours.colour) == ("8G", 65536, "site")
    assert (other.shm_size, other.limits_nofile) == ("8G", 1)
    given = loaded("@gpu-node/cluster/site.yml", shm_size="2G")
    assert {host.data.shm_size for host in given} == {"2G"}


def test_group_data_beats_all_but_hosts_in_an_inventory_file(site: Path) -> None:
    """There the levels of the cluster file are pyinfra's levels."""
    (site / "group_data").mkdir()
    text = "shm_size = '1G'\nlimits_nofile = 1\ntoolchain_packages = {}\n"
    (site / "group_data" / "a100.py").write_text(text)
    data = copied(site).get_host("a100-01").data
    assert (data.shm_size, data.limits_nofile) == ("1G", 1)
    assert data.toolchain_packages == {"six": "1.16.0"}


def test_an_inventory_file_names_the_connector_once(site: Path) -> None:
    """pyinfra loads all connectors for each such name; the path is absolute."""
    (site / "site.py").touch()
    found = pyinfra_groups.groups_of("cluster/site.py")
    assert found["all"][0] == [f"@gpu-node/{site / 'site.py'}"]
    assert found["a100"][0] == [("a100-01", load(site / "site.yml").hosts["a100-01"].data)]
    inventory = copied(site)
    assert {host.connector_cls for host in inventory} == {Connector}
    assert groups(inventory) == {"a100-01": ["a100"], "v100-01": ["v100"], "spare": []}


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        ("groups['a100'][1]['shm_size'] = '1G'", lambda _, data: data.shm_size == "1G"),
        ("groups['all'][1]['shm_size'] = '1G'", lambda _, data: data.shm_size == "1G"),
        ("groups['a100'][0][0][1]['shm_size'] = '1G'", lambda _, data: data.shm_size == "1G"),
        ("groups['b'] = (['a100-01'], {'b': 1})", lambda _, data: data.b == 1),
        ("groups['b'] = ['a100-01']", lambda found, _: "b" in found.get_host("a100-01").groups),
        ("groups['b'] = [('a100-01', {'b': 1})]", lambda _, data: data.b == 1),
        ("groups['all'][0].append(('@local', {}))", lambda found, _: "@local" in found.hosts),
        ("del groups['v100']", lambda found, _: [*found.hosts] == ["a100-01", "spare"]),
        ("groups['v100'][0].clear()", lambda found, _: [*found.hosts] == ["a100-01", "spare"]),
    ],
)
def test_copies_that_edit_the_groups(
    site: Path, edit: str, check: Callable[[Inventory, Any], bool]
) -> None:
    """Data of each level, groups and hosts; a host that is in no group any more is left out."""
    inventory = copied(site, edit)
    assert check(inventory, inventory.get_host("a100-01").data)
    assert inventory.get_host("a100-01").data.ssh_hostname == "127.0.0.4"


def test_a_copy_that_filters_all(site: Path) -> None:
    """One name stands for all hosts there: a filter would leave the host in, unseen."""
    edit = (
        "hosts, data = groups['all']\n"
        "groups['all'] = ([each for each in hosts if each != 'v100-01'], data)"
    )
    with pytest.raises(pyinfra_groups.InventoryRefused, match="next: remove a host from its group"):
        copied(site, edit)
    assert "@local" in copied(site, f"{edit}\ngroups['all'][0].append('@local')").hosts


def test_the_file_is_read_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyinfra makes each inventory twice; the next run reads it again."""
    read: list[Path] = []

    def noted(file: Path) -> Cluster:
        read.append(file)
        return load(file)

    monkeypatch.setattr(pyinfra_groups, "load", noted)
    for runs in (1, 2):
        loaded("@gpu-node/cluster/site.yml")
        assert len(read) == runs


def debug(*words: str) -> Ended:
    return run("pyinfra", *words, "debug-inventory", "--json")


@pytest.mark.parametrize(
    ("limit", "is_direct"), [("a100", True), ("a100-01", False), ("a*", True), ("a*", False)]
)
def test_limit_chooses_hosts(site: Path, limit: str, is_direct: bool) -> None:
    """By host and group; no sshd listens there: the test looks at which were tried."""
    (site / "site.py").write_text(COPY.format(edit=""))
    inventory = f"@gpu-node/{site}/site.yml" if is_direct else str(site / "site.py")
    done = run("pyinfra", "-y", inventory, "--limit", limit, "exec", "--", "true")
    assert done.code == 1
    assert "[a100-01]" in done.err and "[v100-01]" not in done.err and "[spare]" not in done.err


@pytest.mark.parametrize(
    ("file", "options", "says"),
    [
        ("site.yml", ["--limit", "v10"], "--limit: found 'v10' (matches no host, did you mean v1"),
        ("site.yml", ["--exclude", "*"], "--exclude: found every host; allowed: fewer"),
        ("site.yml", ["--data", "shm_size=8Gb"], "--data shm_size: found '8Gb'; allowed: "),
        ("site.yml", ["--data", "areas=shh"], "--data areas: found 'shh' (no such name, did"),
        ("none.yml", [], "none.yml: found no such file or directory; allowed: a cluster file"),
        ("wrong.yml", [], "wrong.yml:4: defaults.shm.siz: found 'siz' (no such key, did you mean"),
        ("site.py", [], "(a .py file is named without @gpu-node/); allowed: @gpu-node/PATH with"),
        ("site", [], "site'; allowed: @gpu-node/PATH with a cluster file (.yml)"),
        ("a,b.yml", [], "a' (pyinfra splits INVENTORY at each comma); allowed: "),
        ("", [], "'; allowed: @gpu-node/PATH with a cluster file (.yml)"),
    ],
)
def test_refusals_in_the_direct_form(site: Path, file: str, options: list[str], says: str) -> None:
    """A line for each problem; tests/cli/test_form.py has what the command makes of it."""
    (site / "wrong.yml").write_text(CLUSTER.replace("shm: {size", "shm: {siz"))
    (line,) = refused(f"@gpu-node/{site}/{file}", *options)
    assert says in line


def test_several_inventories(site: Path) -> None:
    """A name that is in one of them is no error of another one."""
    done = debug(f"@gpu-node/{site}/site.yml,@local", "--limit", "@local")
    assert done.code == 0, done.err
    assert [host["name"] for host in json.loads(done.out)][-1] == "@local"


def reached(sshd: Sshd, folder: Path) -> str:
    """Write a cluster of the one server, and return its inventory."""
    text = CLUSTER.partition("groups:")[0].replace("port: 1", f"port: {sshd.port}")
    (folder / "site.yml").write_text(f"{text}hosts:\n  n1: {{address: 127.0.0.1}}\n")
    return f"@gpu-node/{folder}/site.yml"


def pin(sshd: Sshd, folder: Path, key: str = "") -> None:
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {key or sshd.host_key}\n")


def test_a_run_of_pyinfra(sshd: Sshd, site: Path) -> None:
    """A command and an upload, over the connector."""
    inventory = reached(sshd, site)
    pin(sshd, site)
    done = run("pyinfra", "-y", inventory, "exec", "--", "echo", "it is", "$((40+2))")
    assert done.code == 0, done.err
    assert "[n1] it is 42" in done.err


@pytest.mark.parametrize("key", ["", ECDSAKey.generate().get_base64()])
def test_the_next_step_of_a_refused_host_key(sshd: Sshd, site: Path, key: str) -> None:
    """In pyinfra's own run as well, in place of its advice to forget the pinned key unseen."""
    inventory = reached(sshd, site)
    if key:
        pin(sshd, site, f"ecdsa-sha2-nistp256 {key}")
    done = run("pyinfra", "-y", inventory, "exec", "--", "true")
    assert done.code == 1
    file = shlex.quote(os.path.relpath(site / "site.yml", BIN.parents[1]))
    file = str(site / "site.yml") if file.startswith("..") else file
    offered = sshd.keys[0].fingerprint
    assert f"then: gpu-node host-key {file} n1 --accept {offered}" in done.err
    assert ("its host key has changed" if key else "is not pinned") in done.err
    assert "ssh-keygen -R" not in done.err and sshd.attempts == []


def test_the_next_step_of_a_refused_login(sshd: Sshd) -> None:
    sshd.authorized = []
    error = ask(sshd)
    assert error.startswith("Authentication error (username=root, key=")
    assert "(Authentication failed.): its sshd accepts none of the offered keys" in error


def test_a_name_that_does_not_resolve(sshd: Sshd) -> None:
    """The host is named, and the next step."""
    error = ask(sshd, ssh_hostname="nowhere.invalid")
    assert error.startswith("Could not resolve hostname 'nowhere.invalid' (")
    assert "; next: correct the node's address in the inventory" in error


def test_the_name_of_an_alias_that_does_not_resolve(sshd: Sshd, tmp_path: Path) -> None:
    """It is the one that was looked up."""
    (tmp_path / "config").write_text("Host n1\n  HostName nowhere.invalid\n")
    error = ask(sshd, ssh_hostname="n1", ssh_config_file=str(tmp_path / "config"))
    assert error.startswith("Could not resolve hostname 'nowhere.invalid' (")


class _Agents(Client):
    """A client that an agent with three keys is asked by, of which sshd takes the last one."""

    offered: list[object] = []  # noqa: RUF012

    @override
    def agent_keys(self) -> list[Any]:
        return ["first", "second", "third"]

    @override
    def connect(self, hostname: str, **options: Any) -> None:  # type: ignore[override]
        self.offered.append(options.get("pkey"))
        if "pkey" not in options:
            raise SSHException("No existing session")
        if options["pkey"] != "third":
            raise AuthenticationException("no")


def test_an_agent_with_more_keys_than_sshd_takes(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further one is offered on a connection of its own, by our client."""
    monkeypatch.setattr(connector, "Client", _Agents)
    inventory = Inventory(([("n1", {})], {}))
    (node,) = inventory
    node.connector_cls = Connector
    State(inventory, Config())
    node.connect(raise_exceptions=True)
    assert _Agents.offered == [None, "second", "third"]


def test_nodes_of_another_inventory_go_on_by_the_connector(sshd: Sshd, tmp_path: Path) -> None:
    """pyinfra has reached them before our deploy begins; further sessions are strict."""
    (tmp_path / "pins").touch()
    data = {
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_known_hosts_file": str(tmp_path / "pins"),
    }
    MINE.write_private_key_file(str(tmp_path / "key"))
    inventory = Inventory(([("127.0.0.1", {**data, "ssh_key": str(tmp_path / "key")})], {}))
    state = State(inventory, Config())
    (node,) = inventory
    node.connect(raise_exceptions=True)
    before = node.connector
    assert type(before) is SSHConnector
    adopt(state)
    assert isinstance(node.connector, Connector) and node.connector.client is before.client
    assert node.run_shell_command("echo here")[1].stdout == "here"
    node.disconnect()
    (tmp_path / "pins").write_text("")
    with pytest.raises(ConnectError, match=r"gpu-node host-key INVENTORY 127\.0\.0\.1"):
        Connector(state, node).connect()


# A process that loads an inventory of ours, or not, and then has another pyinfra project beside it.
BESIDE = """
import json, sys
from gevent import monkey
monkey.patch_all()
import pyinfra_cli.main
from pyinfra.api import Config, State
from pyinfra.context import ctx_config, ctx_state
from pyinfra_cli.inventory import make_inventory

def run(inventory):
    state = State(check_for_changes=False)
    with ctx_state.use(state), ctx_config.use(Config()):
        found = make_inventory(inventory, cwd="/")
    state.init(found, Config())
    for host in found:
        host.connect()
    return [(type(host.connector), type(getattr(host.connector, "client", None)),
             type(host.connector.client.get_transport()), host.connected,
             host.connected and host.run_shell_command("echo here")[1].stdout) for host in found]

def named(value):
    if hasattr(value, "__qualname__"):
        return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    return type(value).__qualname__

def snapshot():
    found = {"sys.excepthook": named(sys.excepthook), "sys.displayhook": named(sys.displayhook)}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in ("pyinfra", "pyinfra_cli", "paramiko") and module:
            for key, value in vars(module).items():
                found[f"{name}.{key}"] = named(value)
                if isinstance(value, type) and value.__module__ == name:
                    for inner, member in vars(value).items():
                        members = [*member.values()] if isinstance(member, dict) else [member]
                        found[f"{name}.{key}.{inner}"] = [named(each) for each in members]
    return found

ours, theirs = json.loads(sys.argv[1])
reached = [run(each) for each in ours]
other = run(theirs)
found = {"ours": [str(each) for each in reached], "theirs": str(other), "all": snapshot()}
print(json.dumps(found))
"""


def beside(ours: list[str], theirs: str) -> Any:
    words = [sys.executable, "-c", BESIDE, json.dumps([ours, theirs])]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def other_project(sshd: Sshd, tmp_path: Path) -> Iterator[str]:
    """A pyinfra project with an inventory of its own, and a known_hosts that is empty."""
    MINE.write_private_key_file(str(tmp_path / "other_key"))
    data = {
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_key": str(tmp_path / "other_key"),
        "ssh_known_hosts_file": str(tmp_path / "other_pins"),
    }
    (tmp_path / "other_pins").touch()
    (tmp_path / "other.py").write_text(f"hosts = [('127.0.0.1', {data!r})]\n")
    yield str(tmp_path / "other.py")


def test_a_second_project_beside_ours(sshd: Sshd, site: Path, other_project: str) -> None:
    """Its SSH, sys.excepthook, pyinfra and paramiko are as after pyinfra alone."""
    alone = beside([], other_project)
    added = (site.parent / "other_pins").read_text()
    (site.parent / "other_pins").write_text("")
    assert not [key for key, value in alone["all"].items() if "gpu_node" in str(value)]

    inventory = reached(sshd, site)
    pin(sshd, site)
    (site / "site.py").write_text(COPY.format(edit=""))
    both = beside([inventory, str(site / "site.py")], other_project)
    for each in both["ours"]:
        assert "connector.Connector" in each and "handshake.PinnedFirst" in each
        assert "True, 'here'" in each
    assert both["theirs"] == alone["theirs"]
    assert "pyinfra.connectors.ssh.SSHConnector" in both["theirs"]
    assert "paramiko.transport.Transport" in both["theirs"] and "'here'" in both["theirs"]
    # pyinfra's own policy, which gpu-node never has: an unknown key is added.
    assert added and (site.parent / "other_pins").read_text() == added

    changed = {key for key in both["all"] if both["all"][key] != alone["all"].get(key)}
    changed -= {key for key in changed if key not in alone["all"]}  # further modules of theirs
    errors = ("UnexpectedExternalError", "UnexpectedInternalError")
    assert changed <= {f"pyinfra_cli.exceptions.{each}.get_exception" for each in errors}
    ours = [key for key, value in both["all"].items() if "gpu_node" in str(value)]
    assert {*ours} == {f"pyinfra_cli.exceptions.{each}.get_exception" for each in errors}


def test_clients_of_pyinfra_stay_its_own() -> None:
    """Ours is another class; importing it changes nothing."""
    assert issubclass(Client, SSHClient) and SSHClient.__module__.startswith("pyinfra.")
