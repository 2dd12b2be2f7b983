"""The main job, in order: two broken servers are reported, repaired, proved, then unchanged."""

from __future__ import annotations

import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from docs.schema import FILE
from gpu_node.drift.report import brief
from gpu_node.drift.report.formats import Page, parts, printed
from gpu_node.drift.report.json import WrittenReport
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.view import View
from gpu_node.lab import nodes
from tests.e2e.conftest import keep_converged
from tests.e2e.on_lab import (
    INVENTORY,
    MANAGED,
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
    sshd_counts,
)

pytestmark = pytest.mark.lab

AS_FOUND = {
    *("shm.too-small", "shm.not-persistent", "limits.nofile", "limits.memlock"),
    *("toolchain.cmake-old", "nccl.duplicate-wheels", "nccl.package-mismatch"),
    *("nccl.package-missing", "driver.headers-missing"),
    *("ssh.key-missing", "ssh.not-authorised", "ssh.unknown-host-key"),
    *("ssh.name-unresolved", "ssh.no-login"),
    *("network.ifname-missing", "env.not-set"),
}
# The wheel that came last was the wrong one, and rpm was given two versions. The kernel was updated
# on both, and one was rebooted since. One's ~/.bashrc was copied from the other.
ALONE = {
    "a100-01": {
        *("nccl.wheel-damaged", "nccl.loaded-mismatch", "nccl.duplicate-packages"),
        *("driver.module-not-built", "driver.not-loaded"),
    },
    "v100-01": {
        *("toolchain.package-differs", "driver.next-boot", "driver.persistence"),
        *("shm.stale-segments", "network.ifname-wrong"),
    },
}

FACTS = (
    *("driver.Driver", "shm.SharedMemory", "limits.ResourceLimits", "toolchain.Toolchain"),
    *("nccl.Nccl", "ssh.SshMesh", "network.Network", "env.Env", "workspace.Workspace"),
    "node.NodeProbe",
)

# What a user wrote, or a distribution's package.
USERS = ("/etc/fstab", "/etc/security/limits.conf", "/usr/bin/cmake")
KERNELS = ("3.10.0-1160.71.1.el7.x86_64", "3.10.0-1160.119.1.el7.x86_64")
RPMS = ("libnccl", "libnccl-devel", "libnccl-static")
# Another vendor's package, whose name begins alike.
OTHERS = {"a100-01": ["libnccl-rdma-sharp-plugin-2.5.0-1.x86_64"]}


def shown(report: Report, width: int = 100) -> str:
    """Return the table of a report."""
    return "".join(parts("table", View(report), Page(Console(file=io.StringIO(), width=width))))


@pytest.fixture(scope="module")
def story() -> dict[str, Any]:
    """The state of the nodes before, and what was recorded on the way."""
    nodes.reset(MANAGED)
    users = {(node, path): content(node, path) for node in MANAGED for path in USERS}
    found = {node: manifest(node) for node in MANAGED}
    before = drift()
    plan = dry()
    read = {node: manifest(node) for node in MANAGED}
    done = converge()
    kernel = on("v100-01", "uname -r").strip()
    keep_converged()
    return {
        "users": users,
        "found": found,
        "drift": before,
        "plan": plan,
        "read": read,
        "converge": done,
        "kernel": kernel,
    }


def test_a_report_changes_nothing_on_the_nodes(story: dict[str, Any]) -> None:
    """A report and a dry run change no file, on nodes with much to repair."""
    for node in MANAGED:
        assert changed(story["found"][node], story["read"][node]) == set()


@pytest.fixture
def converged(story: dict[str, Any]) -> Converge:
    """The result of the first converge."""
    result: Converge = story["converge"]
    return result


def test_drift_is_reported_as_found(story: dict[str, Any]) -> None:
    """Exit 2, both nodes drift, by exactly the rules of the field notes."""
    report = story["drift"]
    assert report.code == 2
    for node in MANAGED:
        host = report.json["hosts"][node]
        assert host["status"] == "drift"
        assert {finding["rule"] for finding in host["findings"]} == AS_FOUND | ALONE[node]


def test_the_report_fits_its_schema(story: dict[str, Any]) -> None:
    """The JSON validates against the shipped schema file."""
    schema = json.loads(FILE.read_text())
    jsonschema.Draft202012Validator(schema).validate(story["drift"].json)


def test_the_problems_are_one_screen(story: dict[str, Any]) -> None:
    """Every finding is counted in a line; what to run next, and whether a job starts, is last."""
    report = WrittenReport.model_validate(story["drift"].json)
    lines = shown(report).splitlines()
    assert len(lines) <= 40
    counts = [int(line.split()[-1]) for line in lines if re.search(r" deploy +\d+$", line)]
    assert sum(counts) == sum(report.summary.findings.values())
    (at,) = [at for at, line in enumerate(lines) if line.startswith("repair: gpu-node deploy ")]
    assert lines[at + 1].startswith("A job can start on 0 of 2 nodes; stopped by: ")


def test_dry_run_shows_what_the_real_run_does(story: dict[str, Any], converged: Converge) -> None:
    """On fresh nodes: the same operations on the same hosts, no others."""
    assert converged.executed == story["plan"]
    assert converged.executed


def test_converge_ends_proved(converged: Converge) -> None:
    """Exit 0, no failed host, and the proof was one of the operations."""
    assert converged.code == 0, converged.err
    assert converged.failed == []
    assert any("Prove it" in name for name in converged.executed)


def test_converge_announces_and_sums_up_as_the_report(
    story: dict[str, Any], converged: Converge
) -> None:
    """The counts and what is repaired before; the last line is that of the report afterwards."""
    before = brief.announcement(WrittenReport.model_validate(story["drift"].json))
    announced = printed(before, Console(file=io.StringIO(), width=80)).splitlines()
    assert "\n".join(["", *announced, ""]) in converged.err
    assert converged.err.splitlines()[-2:] == [
        "2 nodes, 2 ok: no problems",
        "A job can start on 2 of 2 nodes",
    ]


@pytest.fixture(scope="module")
def again(story: dict[str, Any]) -> None:
    """Both nodes are as the first converge left them; a test that changes one restores it."""
    assert story["converge"].code == 0


@pytest.mark.parametrize("node", MANAGED)
@pytest.mark.parametrize("path", USERS)
def test_users_bytes_stay(story: dict[str, Any], again: None, node: str, path: str) -> None:
    """The old content is unchanged, byte for byte; fstab only grew at its end."""
    before, after = story["users"][node, path], content(node, path)
    assert after.startswith(before) if path == "/etc/fstab" else after == before


def test_users_fstab_is_the_hard_case(story: dict[str, Any]) -> None:
    """The lab's fstab has a user's lines and no newline at its end, as the tests assume."""
    text = story["users"]["a100-01", "/etc/fstab"].decode()
    assert text and not text.endswith("\n") and "\t" in text


@pytest.mark.parametrize("node", MANAGED)
def test_the_nodes_are_right(again: None, node: str) -> None:
    """Read by other means than our own facts: df, a login, findmnt, cmake itself."""
    assert int(on(node, "df --output=size -B1 /dev/shm | tail -n 1")) == 8 << 30
    assert on(node, "findmnt -sno OPTIONS /dev/shm").strip().endswith("size=8G")
    assert on(node, "su -l root -c 'ulimit -Sn; ulimit -Sl'").split() == ["16384", "8192"]
    assert on(node, "/usr/local/bin/cmake --version").startswith("cmake version 3.25.2")
    assert on(node, "/usr/bin/cmake --version").startswith("cmake version 3.23.3")


@pytest.mark.parametrize("node", MANAGED)
def test_torch_has_its_nccl(again: None, node: str) -> None:
    """One wheel, the library that torch loads, and the system's packages, by pip, torch and rpm."""
    environment = "/root/miniconda3/envs/dis/bin/python"
    listed = on(node, f"{environment} -m pip list --format=freeze 2>/dev/null").split()
    assert [each for each in listed if "nccl" in each] == ["nvidia-nccl-cu12==2.18.1"]
    assert "pyarrow==15.0.2" in listed
    assert on(node, f"{environment} -c 'import torch; print(torch.nccl)'") == "21801\n"
    matched = [f"{name}-2.18.1-1+cuda12.1.x86_64" for name in RPMS]
    assert sorted(name for name in on(node, "rpm -qa").split() if "nccl" in name) == (
        sorted([*matched, *OTHERS.get(node, [])])
    )


@pytest.mark.parametrize("node", MANAGED)
def test_every_kernel_has_its_driver(again: None, node: str) -> None:
    """By modinfo, dkms and nvidia-smi: both kernels' modules, one of them loaded."""
    for kernel in KERNELS:
        assert on(node, f"modinfo -k {kernel} -F version nvidia") == "535.154.05\n"
        assert on(node, f"rpm -q kernel-devel-{kernel}") == f"kernel-devel-{kernel}\n"
    assert on(node, "dkms status").count(": installed") == len(KERNELS)
    asked = "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader"
    assert on(node, asked).splitlines() == ["535.154.05, Enabled"] * 2


def test_other_tmpfs_keep_their_size(again: None) -> None:
    """Only /dev/shm was remounted."""
    sizes = on("a100-01", "findmnt -rnt tmpfs -o TARGET,SIZE")
    others = [line for line in sizes.splitlines() if not line.startswith("/dev/shm ")]
    assert all(not line.endswith(" 8G") for line in others)


def test_afterwards_the_report_is_clean(again: None) -> None:
    """Exit 0 and no finding."""
    report = drift()
    assert len(shown(WrittenReport.model_validate(report.json)).splitlines()) <= 12
    assert report.code == 0
    assert report.json["summary"]["findings"] == {"error": 0, "warning": 0, "info": 0}


def test_one_connection_and_two_execs_a_report(again: None) -> None:
    """sshd's own log of one drift run: the probe, and the ports that the nodes try."""
    since = {node: nodes.logs(node) for node in MANAGED}
    drift()
    assert {node: sshd_counts(node, since[node]) for node in MANAGED} == dict.fromkeys(
        MANAGED, (1, 2)
    )


def test_a_second_converge_touches_nothing(again: None) -> None:
    """No operation, no file touched (mtime and inode), one connection and one exec a host."""
    since = {node: nodes.logs(node) for node in MANAGED}
    before = {node: manifest(node) for node in MANAGED}
    second = converge()
    assert (second.code, second.executed) == (0, {})
    for node in MANAGED:
        assert changed(before[node], manifest(node)) == set()
        assert sshd_counts(node, since[node]) == (1, 1)


@pytest.fixture(scope="module")
def without_v100(again: None) -> tuple[Run, Converge]:
    """A report and a converge in parallel, while a node is stopped and another needs repair."""
    on("a100-01", "chmod 755 /dev/shm")
    nodes.stop("v100-01")
    try:
        with ThreadPoolExecutor() as beside:
            seen, done = beside.submit(drift), beside.submit(converge)
            return seen.result(), done.result()
    finally:
        nodes.start("v100-01")


def test_a_stopped_node_is_unreachable_and_stops_no_other(
    without_v100: tuple[Run, Converge],
) -> None:
    """Exit 1, that node unreachable with the reason, the other reported in full."""
    report, _ = without_v100
    assert report.code == 1
    assert report.json["hosts"]["v100-01"]["status"] == "unreachable"
    assert report.json["hosts"]["v100-01"]["error"]
    assert report.json["hosts"]["a100-01"]["facts"]["toolchain"]["cmake"]["found"]
    assert report.json["hosts"]["a100-01"]["error"] is None


def test_converge_goes_on_without_a_stopped_node(without_v100: tuple[Run, Converge]) -> None:
    """The other node is repaired; the run fails because of the unreachable one."""
    _, result = without_v100
    assert (result.code, result.failed) == (1, ["v100-01"])
    assert on("a100-01", "stat -c %a /dev/shm").strip() == "1777"


def test_the_next_boot_has_its_gpus(story: dict[str, Any], without_v100: object) -> None:
    """v100-01 ran the old kernel when it was converged; it boots the new one, and loses nothing."""
    assert story["kernel"] == KERNELS[0]
    assert on("v100-01", "uname -r").strip() == KERNELS[1]
    assert on("v100-01", "nvidia-smi -L").count("V100") == 2


def test_each_area_is_a_pyinfra_fact(again: None) -> None:
    """`pyinfra INVENTORY fact gpu_node.facts.AREA.Fact` prints the area; all of it is read."""
    names = [f"gpu_node.facts.{name}" for name in FACTS]
    done = run("pyinfra", INVENTORY, "fact", *names, "--json")
    assert (done.code, len(done.json)) == (0, len(names)), done.err
    for states in done.json.values():
        assert states.keys() == {*MANAGED}
        assert all("unreadable" in str(state) for state in states.values())


def test_limit_reads_one_node_only(again: None) -> None:
    """--limit by group asks no other node at all."""
    since = nodes.logs("v100-01")
    report = drift(INVENTORY, "--limit", "a100")
    assert list(report.json["hosts"]) == ["a100-01"]
    assert sshd_counts("v100-01", since) == (0, 0)


def test_data_overrides_what_the_inventory_wants(again: None) -> None:
    """--data shm_size is judged; a bad value is refused before any node is contacted."""
    plan = dry(INVENTORY, "--data", "shm_size=9G")
    assert any("Remount" in name for name in plan)
    since = nodes.logs("a100-01")
    refused = run("pyinfra", "--dry", INVENTORY, "deploy/gpu_node.py", "--data", "shm_size=9Gb")
    assert refused.code == 1
    assert "shm_size" in refused.err
    assert sshd_counts("a100-01", since) == (0, 0)
