"""What pyinfra loads for either file of an inventory, and the command that runs a deploy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyinfra.api import Config, Inventory, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_config, ctx_state
from pyinfra_cli.inventory import make_inventory

from gpu_node.facts.ask.pyinfra_file import INVENTORY_DATA, loadable, pyinfra_file

INVENTORIES = Path(__file__).parents[2] / "inventories"
CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: key, known_hosts: known_hosts}}
groups: {v100: {}}
hosts:
  v100-01: {address: 192.0.2.11, group: v100}
  a100-01: {address: 192.0.2.10, group: v100}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cluster file and the files that it names; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yml").write_text(CLUSTER)
    for name in ("key", "known_hosts"):
        (tmp_path / name).touch()
    return tmp_path


def loaded(file: str, group_data: Sequence[str] = ()) -> Inventory:
    """Load an inventory file as pyinfra's command does."""
    with ctx_state.use(State(check_for_changes=False)), ctx_config.use(Config()):
        found: Inventory = make_inventory(
            file, cwd=str(Path.cwd()), group_data_directories=group_data
        )
    return found


def test_the_inventory_beside_a_cluster_file(folder: Path) -> None:
    assert pyinfra_file("site.yml") == "site.yml"
    (folder / "site.py").touch()
    assert pyinfra_file("site.yml") == pyinfra_file("site.py") == "site.py"
    assert loadable("site.yml") == ("site.py", [])


@pytest.mark.parametrize("name", ["@local", "node1,node2", "site.py"])
def test_what_is_no_cluster_file_stays(folder: Path, name: str) -> None:
    assert loadable(name) == (pyinfra_file(name), []) == (name, [])


@pytest.mark.parametrize("is_here", [True, False])
def test_a_lone_cluster_file_is_loaded_as_the_copied_inventory_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_here: bool
) -> None:
    """Hosts, their order, groups and group data."""
    (folder / "group_data").mkdir()
    (folder / "group_data" / "v100.py").write_text("colour = 'green'\n")
    if not is_here:
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
    path = "site.yml" if is_here else "../site.yml"
    lone = loaded(*loadable(path))
    (folder / "site.py").write_text((INVENTORIES / "lab.py").read_text())
    copied = loaded(str(folder / "site.py"))
    assert [host.name for host in lone] == [host.name for host in copied]
    for host in lone:
        same = copied.get_host(host.name)
        assert host.groups == same.groups
        assert {**host.data.dict(), INVENTORY_DATA: ""} == {**same.data.dict(), INVENTORY_DATA: ""}
    assert lone.get_host("v100-01").data.colour == "green"


def test_hosts_without_a_group(folder: Path) -> None:
    """pyinfra has them, with their own data."""
    lines = CLUSTER.replace("groups: {v100: {}}\n", "").replace(", group: v100", ", port: 2222")
    (folder / "site.yml").write_text(lines)
    hosts = list(loaded(*loadable("site.yml")))
    assert [(host.name, host.groups) for host in hosts] == [
        (name, ["site"]) for name in ("v100-01", "a100-01")
    ]
    assert {host.data.ssh_port for host in hosts} == {2222}
    assert [host.data.ssh_hostname for host in hosts] == ["192.0.2.11", "192.0.2.10"]


def test_a_comma_in_the_path_of_a_lone_cluster_file(folder: Path) -> None:
    """pyinfra would take it for two inventories; an inventory file beside it is loaded."""
    (folder / "a,b").mkdir()
    with pytest.raises(PyinfraError, match=r"^a,b/site\.yml: found a comma .*; next: rename it"):
        loadable("a,b/site.yml")
    (folder / "a,b" / "site.py").touch()
    assert loadable("a,b/site.yml") == ("a,b/site.py", [])
