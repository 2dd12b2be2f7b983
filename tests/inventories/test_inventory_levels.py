"""Host beats group beats defaults, in the typed answer and in what pyinfra is handed."""

from pathlib import Path

import pytest

from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.schema import load
from gpu_node.inventories.wanted import (
    CmakeWanted,
    GpuWanted,
    LimitsWanted,
    NcclWanted,
    NodeWanted,
    ShmWanted,
    ToolchainWanted,
)

GIB = 1 << 30
FILE = """
cluster: c
defaults:
  ssh: {user: root, key: keys/id, known_hosts: keys/known, sudo: true}
  shm: {size: 8G}
  limits: {nofile: 16384, memlock: 8M}
  gpu: {count: 2}
groups:
  a100:
    gpu: {model: A100}
    shm: {size: 16G}
    limits: {memlock: unlimited}
    ssh: {port: 2222}
  v100:
    gpu: {model: V100}
    shm:
  spare:
hosts:
  v100-01: {address: 10.0.0.5, group: v100, ssh: {sudo: no}}
  a100-01:
    address: 10.0.0.4
    group: a100
    shm: {size: 32G}
    gpu: {count: 8}
    ssh: {user: admin}
  a100-02: {address: fd00::6, group: a100, network: bond0}
"""
CMAKE = """
defaults:
  toolchain: {cmake: {version: "3.25.2", url: "http://10.0.0.2/c.tar.gz", sha256: "SHA"}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "keys").mkdir()
    for name in ("id", "known"):
        (tmp_path / "keys" / name).touch()
    (tmp_path / "c.yml").write_text(FILE)
    return load(tmp_path / "c.yml")


def test_a_host_without_gpus_for_jobs(tmp_path: Path) -> None:
    """A host's `gpu: none` wins over its group's model and count, and its GPUs over `gpu: none`."""
    text = FILE.replace("group: v100, ssh: {sudo: no}", "group: v100, gpu: none")
    text = text.replace("  spare:\n", "  spare: {gpu: none}\n")
    more = "  x: {address: 10.0.0.7, group: spare}\n"
    more += "  y: {address: 10.0.0.8, group: spare, gpu: {model: T4, count: 1}}\n"
    (tmp_path / "c.yml").write_text(
        text.replace("key: keys/id, known_hosts: keys/known, ", "") + more
    )
    cluster = load(tmp_path / "c.yml")
    counts = {"v100-01": 0, "a100-01": 8, "a100-02": 2, "x": 0, "y": 1}
    assert {each["name"]: each["gpus"] for each in cluster.nodes()} == counts
    for name, count in counts.items():
        wanted = NodeWanted.from_data(cluster.data_of(name))
        assert wanted.gpu == cluster.hosts[name].wanted.gpu
        assert (wanted.gpu and wanted.gpu.count, wanted.is_cpu_node) == (count, count == 0)


def test_hosts_keep_the_order_of_the_file(cluster: Cluster) -> None:
    assert list(cluster.hosts) == ["v100-01", "a100-01", "a100-02"]
    assert cluster.name == "c"


def test_the_nearest_level_wins_key_by_key(cluster: Cluster) -> None:
    assert cluster.hosts["a100-01"].wanted == NodeWanted(
        address="10.0.0.4",
        gpu=GpuWanted(model="A100", count=8),
        shm=ShmWanted(size=32 * GIB),
        limits=LimitsWanted(nofile=16384, memlock="unlimited"),
    )
    assert cluster.hosts["v100-01"].wanted == NodeWanted(
        address="10.0.0.5",
        gpu=GpuWanted(model="V100", count=2),
        shm=ShmWanted(size=8 * GIB),
        limits=LimitsWanted(nofile=16384, memlock=8 << 20),
    )


def test_what_is_not_said_is_not_managed(cluster: Cluster) -> None:
    wanted = cluster.hosts["a100-02"].wanted
    assert wanted.toolchain is None
    assert wanted.limits is not None
    assert wanted.limits.stack is None


def test_flat_data_reads_back_as_the_same_answer(cluster: Cluster) -> None:
    for name, host in cluster.hosts.items():
        assert NodeWanted.from_data(cluster.data_of(name)) == host.wanted


def test_each_host_knows_all(cluster: Cluster) -> None:
    """By name, address, port, GPUs, interface and user; those that --limit leaves out too."""
    nodes = cluster.data_of("a100-01")["cluster_nodes"]
    assert nodes == cluster.pyinfra_groups()["all"][1]["cluster_nodes"]
    assert nodes == [
        {"name": "v100-01", "address": "10.0.0.5", "port": 22, "gpus": 2, "user": "root"},
        {"name": "a100-01", "address": "10.0.0.4", "port": 2222, "gpus": 8, "user": "admin"},
        {
            "name": "a100-02",
            "address": "fd00::6",
            "port": 2222,
            "gpus": 2,
            "interface": "bond0",
            "user": "root",
        },
    ]


def test_the_training_user_is_the_launchers(tmp_path: Path) -> None:
    """Of whatever level, before the SSH user of a nearer one; without either there is none."""
    (tmp_path / "c.yml").write_text(
        "cluster: c\ndefaults: {launcher: {user: alice}}\n"
        "hosts: {a: {address: 10.0.0.4, user: root}, b: {address: 10.0.0.5, launcher: {user: bob}}}"
    )
    assert [each["user"] for each in load(tmp_path / "c.yml").nodes()] == ["alice", "bob"]


def test_pyinfra_gets_each_level_where_its_own_precedence_expects_it(cluster: Cluster) -> None:
    groups = cluster.pyinfra_groups()
    assert list(groups) == ["all", "a100", "v100", "spare"]
    names, common = groups["all"]
    assert names == ["v100-01", "a100-01", "a100-02"]
    assert (common["shm_size"], common["limits_memlock"]) == ("8G", "8M")
    hosts, data = groups["a100"]
    assert data == {
        "gpu_model": "A100",
        "shm_size": "16G",
        "limits_memlock": "unlimited",
        "ssh_port": 2222,
    }
    own = {"address": "fd00::6", "ssh_hostname": "fd00::6", "network_interface": "bond0"}
    assert dict(hosts)["a100-02"] == own
    assert groups["spare"] == ([], {})


def test_connection_data(cluster: Cluster) -> None:
    folder = cluster.file.parent
    data = cluster.data_of("a100-01")
    assert data["ssh_user"] == "admin"
    assert data["ssh_key"] == str(folder / "keys" / "id")
    assert data["ssh_known_hosts_file"] == str(folder / "keys" / "known")
    assert data["ssh_strict_host_key_checking"] == "yes"
    assert data["_sudo"] is True
    assert cluster.data_of("v100-01")["_sudo"] is False


def test_paths_are_absolute_wherever_the_command_runs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cluster.file.parent)
    assert load("c.yml").defaults == cluster.defaults


def test_changing_what_pyinfra_got_changes_nothing_of_ours(cluster: Cluster) -> None:
    cluster.pyinfra_groups()["a100"][1]["shm_size"] = "1G"
    assert cluster.data_of("a100-02")["shm_size"] == "16G"


def test_a_toolchain_is_fetched_by_the_node_by_default(tmp_path: Path) -> None:
    text = "cluster: c\ngroups: {g: }\nhosts: {h: {address: node.example, group: g}}"
    (tmp_path / "c.yml").write_text(text + CMAKE.replace("SHA", "AB" * 32))
    cmake = CmakeWanted(
        version="3.25.2", url="http://10.0.0.2/c.tar.gz", sha256="ab" * 32, fetch="node"
    )
    assert load(tmp_path / "c.yml").hosts["h"].wanted.toolchain == ToolchainWanted(cmake=cmake)


PINS = """
cluster: c
defaults: {toolchain: {packages: {pyarrow: "15.0.2", numpy: "1.26.4"}}}
groups:
  a100: {}
  v100: {toolchain: {packages: {NumPy: "1.24.0"}}}
hosts:
  a100-01: {address: 10.0.0.4, group: a100}
  v100-01: {address: 10.0.0.5, group: v100, toolchain: {packages: {six: "1.16.0"}}}
"""


def test_entries_of_a_mapping_add_up(tmp_path: Path) -> None:
    """Pins of all levels together, the nearest for each package, typed and as pyinfra's data."""
    (tmp_path / "c.yml").write_text(PINS)
    cluster = load(tmp_path / "c.yml")
    both = {"pyarrow": "15.0.2", "numpy": "1.26.4"}
    v100 = {"pyarrow": "15.0.2", "numpy": "1.24.0", "six": "1.16.0"}
    for host, pins in (("a100-01", both), ("v100-01", v100)):
        toolchain = cluster.hosts[host].wanted.toolchain
        assert toolchain is not None and toolchain.packages == pins
        assert cluster.data_of(host)["toolchain_packages"] == pins
        assert NodeWanted.from_data(cluster.data_of(host)).toolchain == toolchain


def test_pins_as_data_says_them() -> None:
    """Text with commas, names as pip compares them."""
    wanted = NodeWanted.from_data({"toolchain_packages": "PyArrow==15.0.2, ruamel.yaml==0.18"})
    assert wanted.toolchain is not None
    assert wanted.toolchain.packages == {"pyarrow": "15.0.2", "ruamel-yaml": "0.18"}


def test_a_name_that_is_no_text() -> None:
    """As group data in Python may have it; a file's keys are text."""
    with pytest.raises(InventoryError, match="1 is not a package name"):
        NodeWanted.from_data({"toolchain_packages": {1: "1.0"}})


def test_the_repository_key_is_a_file_beside_the_cluster_file(tmp_path: Path) -> None:
    """Relative to it for pyinfra, too; the word unsigned stays a word."""
    (tmp_path / "cuda.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    for key, shown in (("cuda.asc", str(tmp_path / "cuda.asc")), ("unsigned", "unsigned")):
        nccl = f"nccl: {{repository: {{url: 'https://10.0.0.2/', key: {key}}}}}"
        text = f"cluster: c\ndefaults: {{{nccl}}}\ngroups: {{g: {{}}}}\n"
        (tmp_path / "c.yml").write_text(text + "hosts: {h: {address: 10.0.0.4, group: g}}\n")
        assert load(tmp_path / "c.yml").data_of("h")["nccl_repository_key"] == shown


NCCL = """
cluster: c
defaults:
  nccl: match-torch
groups:
  a: {nccl: {environments: [/opt/dis]}}
  b: {nccl: 2.18.1+cuda12.1}
  c:
hosts:
  a-01: {address: 10.0.0.4, group: a}
  a-02: {address: 10.0.0.5, group: a, nccl: 2.19.3+cuda12.3}
  b-01: {address: 10.0.0.6, group: b}
  b-02: {address: 10.0.0.7, group: b, nccl: {environments: [/opt/b]}}
  c-01: {address: 10.0.0.8, group: c}
"""


def test_a_word_for_nccl_is_its_version_on_any_level(tmp_path: Path) -> None:
    """It merges with mappings as if it were written out, and so it reaches pyinfra."""
    (tmp_path / "c.yml").write_text(NCCL)
    cluster = load(tmp_path / "c.yml")
    assert {name: host.wanted.nccl for name, host in cluster.hosts.items()} == {
        "a-01": NcclWanted(version="match-torch", environments=("/opt/dis",)),
        "a-02": NcclWanted(version="2.19.3+cuda12.3", environments=("/opt/dis",)),
        "b-01": NcclWanted(version="2.18.1+cuda12.1"),
        "b-02": NcclWanted(version="2.18.1+cuda12.1", environments=("/opt/b",)),
        "c-01": NcclWanted(version="match-torch"),
    }
    assert cluster.defaults["nccl_version"] == "match-torch"
    assert cluster.groups["b"] == {"nccl_version": "2.18.1+cuda12.1"}
    assert cluster.hosts["a-02"].data["nccl_version"] == "2.19.3+cuda12.3"
    for name, host in cluster.hosts.items():
        assert NodeWanted.from_data(cluster.data_of(name)) == host.wanted


ALONE = """
cluster: c
defaults:
  ssh: {user: root, key: keys/id, known_hosts: keys/known, port: 2200}
  shm: {size: 8G}
groups:
  a100:
hosts:
  n1: {address: 10.0.0.4}
  n2: {address: 10.0.0.5, user: alice, port: 2222, key: keys/other, ssh: {sudo: true}}
  n3: {address: 10.0.0.6, group: a100}
"""


def test_a_host_needs_no_group(tmp_path: Path) -> None:
    """What it says itself beats the defaults; user, port and key need no `ssh`."""
    (tmp_path / "keys").mkdir()
    for name in ("id", "known", "other"):
        (tmp_path / "keys" / name).touch()
    cluster = load(tmp_path / "c.yml", ALONE)
    names = ("ssh_user", "ssh_port", "ssh_key", "_sudo", "shm_size")
    data = {name: [cluster.data_of(name).get(key) for key in names] for name in cluster.hosts}
    keys = str(tmp_path / "keys")
    assert data["n1"] == ["root", 2200, f"{keys}/id", None, "8G"]
    assert data["n2"] == ["alice", 2222, f"{keys}/other", True, "8G"]
    assert [each["port"] for each in cluster.nodes()] == [2200, 2222, 2200]
    groups = cluster.pyinfra_groups()
    assert [host if isinstance(host, str) else host[0] for host in groups["all"][0]] == [
        *("n1", "n2", "n3")
    ]
    assert dict(each for each in groups["all"][0] if not isinstance(each, str))["n2"] == {
        **{"address": "10.0.0.5"},
        **{"ssh_hostname": "10.0.0.5", "ssh_user": "alice", "ssh_port": 2222, "_sudo": True},
        "ssh_key": f"{keys}/other",
    }
    assert [host[0] for host in groups["a100"][0]] == ["n3"]
