"""The workspace on three nodes: 20,000 files, 512 MB, sent once, and what differs is named."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, let_in, others_off
from tests.e2e.on_lab import DEPLOY, converge, drift, dry, kill_once, on, run

pytestmark = pytest.mark.lab

NODES = ("a100-01", "v100-01", "v100-02")
FILES, BIG, BYTES = 20_000, 10, 1 << 29
PATH = "/data/workspace/XuanYuan"
KEPT = "/data/workspace/.XuanYuan.gpu-node-backup"
COPY = "Workspace | Copy"
MESH = "cd /root/.ssh && rm -f id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f id_ed25519"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace on this machine, every byte of it written, and a cache that stays here."""
    folder = tmp_path_factory.mktemp("workspace") / "XuanYuan"
    small = FILES - BIG
    for number in range(small):
        file = folder / f"part-{number % 100:02}" / f"shard {number:05}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"%05d" % number * 200)
    block = os.urandom((BYTES - small * 1000) // BIG)
    for number in range(BIG):
        (folder / f"model-{number}.bin").write_bytes(block)
    (folder / "llm-code" / "cache").mkdir(parents=True)
    (folder / "llm-code" / "cache" / "old").write_text("not wanted")
    (folder / "train.py").symlink_to("part-00/shard 00000.jsonl")
    return folder


@pytest.fixture(scope="module")
def reset() -> None:
    """Three nodes as found; the bare one lets the lab's key in for once."""
    nodes.reset(NODES)
    let_in("v100-02")


@pytest.fixture
def path(reset: None, source: Path, inventory: WriteInventory) -> str:
    """An inventory of three nodes whose workspace alone is managed, from this machine."""
    path = inventory({})
    write(path, **{"source": "controller", "from": str(source)})
    return path


@pytest.fixture
def sent(path: str) -> None:
    """Copy the workspace to the nodes, unless a test before did."""
    if on("a100-01", f"test -e {PATH}/train.py || echo missing"):
        done = converge(path)
        assert done.code == 0, done.err


def write(inventory: str, **settings: Any) -> None:
    """Write the source of the workspace and the training user."""
    trains = settings.pop("trains", "root")
    file = Path(inventory).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    workspace = {"path": PATH, "exclude": ["llm-code/cache/*"], **settings}
    models = {"path": "/data/models", "mode": "775"}
    ssh = {**cluster["defaults"]["ssh"], "mesh": False}
    cluster["defaults"] = {"ssh": ssh, "workspace": workspace}
    cluster["defaults"]["checks"] = others_off(cluster)
    cluster["defaults"]["directories"] = [models]
    cluster["defaults"]["launcher"] = {"user": trains}
    cluster["groups"] = {"gpu": None}
    cluster["hosts"] = {
        name: {"address": roster.NODES[name].address, "group": "gpu"} for name in NODES
    }
    file.write_text(yaml.safe_dump(cluster))


def findings(path: str) -> dict[str, dict[str, Any]]:
    """What is wrong on which node with the workspace, by its rule; nothing else is managed."""
    hosts = drift(path).json["hosts"]
    found = {
        name: {each["rule"]: each for each in host["findings"] if each["step"] == "workspace"}
        for name, host in hosts.items()
    }
    return {name: rules for name, rules in found.items() if rules}


def assert_whole(node: str) -> None:
    """Counted on the node by find and cksum, and no half of a file is left."""
    counted = on(node, f"cd {PATH} && find . -type f | wc -l && du -sb --apparent-size . | cut -f1")
    files, size = counted.split()
    assert int(files) == FILES and int(size) > BYTES
    assert len(set(on(node, f"cksum {PATH}/*.bin | cut -d' ' -f1").split())) == 1
    assert on(node, f"find {PATH} -name '.gpu-node*' -o -name '.model*'") == ""
    assert on(node, f"readlink {PATH}/train.py") == "part-00/shard 00000.jsonl\n"


def test_it_is_sent_once(path: str) -> None:
    """Missing everywhere, then whole on three nodes; the second run sends nothing."""
    on("v100-01", "chmod 766 /data/models")
    found = findings(path)
    assert set(found) == set(NODES)
    assert found["v100-01"]["workspace.missing"]["wanted"] == (
        "the workspace, as on controller: 20000 files, 511.9M"
    )
    assert found["v100-01"]["workspace.directory"]["found"] == "mode 766"
    done = converge(path)
    assert done.code == 0, done.err
    for node in NODES:
        assert_whole(node)
        assert on(node, "stat -c %a /data/models").strip() == "775"
    start = time.monotonic()
    assert findings(path) == {} and dry(path) == {}
    assert converge(path).executed == {}
    assert time.monotonic() - start < 120  # beside other lanes on two cores


def test_a_changed_file_is_named(path: str) -> None:
    """By the report and by the dry run; that file alone is sent, and others' files stay."""
    on("v100-01", f"cd {PATH} && echo changed >>'part-07/shard 00007.jsonl' && echo mine >my.log")
    (node,) = (found := findings(path))
    assert (node, set(found[node])) == ("v100-01", {"workspace.differs"})
    assert found[node]["workspace.differs"]["found"] == "1 changed: part-07/shard 00007.jsonl"
    planned = dry(path)
    assert [hosts for name, hosts in planned.items() if name.startswith(COPY)] == [["v100-01"]]
    assert (
        "[v100-01] send part-07/shard 00007.jsonl"
        in run("pyinfra", "--dry", "--json", path, DEPLOY).err
    )
    before = on("v100-01", f"ls -i {PATH}/*.bin")
    done = converge(path)
    assert done.code == 0, done.err
    assert "[v100-01] send part-07/shard 00007.jsonl" in done.err
    assert on("v100-01", f"ls -i {PATH}/*.bin") == before
    assert on("v100-01", f"cat {PATH}/my.log") == "mine\n"
    assert findings(path) == {}


@pytest.mark.lab_slow
def test_a_killed_copy_is_finished_by_the_next_run(path: str, sent: None) -> None:
    """What was sent stays, and half a file is completed; no partial file remains."""
    on("v100-02", f"rm {PATH}/*.bin")
    begun = f"ls -A {PATH} | grep -q '^.model'"
    kill_once("v100-02", begun, "pyinfra", "-y", path, DEPLOY, "--limit", "v100-02")
    time.sleep(2)
    (node,) = (found := findings(path))
    assert (node, set(found[node])) == ("v100-02", {"workspace.differs"})
    done = converge(path)
    assert done.code == 0, done.err
    assert_whole("v100-02")


def test_nothing_is_deleted_unasked_nor_under_a_job(path: str, source: Path) -> None:
    """With delete, and while a process holds a GPU, the node is refused; data may allow it."""
    on("v100-02", f"echo mine >{PATH}/my.log; mkdir -p {PATH}/llm-code/cache")
    on("v100-02", f"echo kept >{PATH}/llm-code/cache/new")
    assert "v100-02" not in findings(path)
    write(path, **{"source": "controller", "from": str(source), "delete": True})
    found = findings(path)["v100-02"]["workspace.differs"]
    assert found["found"] == "1 would be deleted: my.log"
    on("v100-02", ": >/dev/nvidia7; sleep 600 </dev/nvidia7 >/dev/null 2>&1 &")
    refused = converge(path, "--limit", "v100-02")
    assert refused.code == 1 and "in use by pid " in refused.err
    assert on("v100-02", f"cat {PATH}/my.log") == "mine\n"
    done = converge(path, "--limit", "v100-02", "--data", "allow_disruption=true")
    assert done.code == 0, done.err
    assert on("v100-02", f"cat {PATH}/my.log || echo gone").strip() == "gone"
    assert on("v100-02", f"cat {PATH}/llm-code/cache/new") == "kept\n"
    assert on("v100-02", f"cat {KEPT}/*/my.log") == "mine\n"


@pytest.mark.lab_slow
def test_from_a_node_to_the_others(path: str, sent: None) -> None:
    """The source sends it, as its own user, only to hosts whose keys it knows."""
    on("a100-01", MESH)
    on("a100-01", f"cp -a {PATH} /data/workspace/ours; rm -rf /data/workspace/ours/part-99")
    key = on("a100-01", "cat /root/.ssh/id_ed25519.pub").strip()
    for node in NODES[1:]:
        on(node, f"rm -rf {PATH}; echo '{key}' >>/root/.ssh/authorized_keys")
    settings = {"source": "a100-01", "from": "/data/workspace/ours"}
    write(path, **settings)
    stopped = converge(path)
    assert stopped.code == 1 and "Host key verification failed" in stopped.err
    known = roster.KNOWN_HOSTS.read_text()
    on("a100-01", f"cat >/root/.ssh/known_hosts <<'END'\n{known}\nEND")
    done = converge(path)
    assert done.code == 0, done.err
    for node in NODES[1:]:
        count = on(node, f"find {PATH} -type f | wc -l").strip()
        assert int(count) == FILES - (FILES - BIG) // 100
    assert findings(path) == {}
    assert converge(path).executed == {}


@pytest.mark.lab_slow
def test_from_a_node_as_who_trains(path: str) -> None:
    """The mesh's keys belong to that user, and so does the copy."""
    known = roster.KNOWN_HOSTS.read_text()
    on("a100-01", f"cat >/etc/ssh/ssh_known_hosts <<'END'\n{known}\nEND")
    on("a100-01", "rm -f /root/.ssh/id_ed25519; mkdir -p /data/workspace/small/lib")
    on("a100-01", "cd /data/workspace/small && echo 1 >train.py && echo 2 >lib/net.py")
    for node in NODES:
        on(node, "useradd -m -s /bin/bash train && install -d -m 700 -o train /home/train/.ssh")
    on("a100-01", "cd / && su train -c 'ssh-keygen -q -t ed25519 -N \"\" -f ~/.ssh/id_ed25519'")
    key = on("a100-01", "cat /home/train/.ssh/id_ed25519.pub").strip()
    for node in NODES[1:]:
        on(node, f"rm -rf {PATH}; echo '{key}' >/home/train/.ssh/authorized_keys")
    write(path, **{"source": "a100-01", "from": "/data/workspace/small", "trains": "train"})
    done = converge(path)
    assert done.code == 0, done.err
    for node in NODES[1:]:
        assert on(node, f"find {PATH} ! -user train") == ""
    assert findings(path) == {}
    assert converge(path).executed == {}
    on("v100-01", f"rm {PATH}/train.py && chown root {PATH} && chmod 755 {PATH}")
    refused = converge(path)
    assert refused.code == 1
    assert "train of a100-01 cannot read it there, or train cannot write it here" in refused.err, (
        refused.err
    )
    assert "the next run" not in refused.err


def test_a_second_directory(path: str, sent: None, tmp_path: Path) -> None:
    """A list: the workspace is the same, the datasets are sent, and nothing after that."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "part.jsonl").write_text("{}")
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    second = {"path": "/data/corpus", "source": "controller", "from": str(tmp_path / "datasets")}
    cluster["defaults"]["workspace"] = [cluster["defaults"]["workspace"], second]
    file.write_text(yaml.safe_dump(cluster))
    found = {
        (rule, each["subject"]) for rules in findings(path).values() for rule, each in rules.items()
    }
    assert found == {("workspace.missing", "/data/corpus")}
    done = converge(path)
    assert done.code == 0, done.err
    for node in NODES:
        assert on(node, "cat /data/corpus/part.jsonl") == "{}"
    assert converge(path).executed == {}
