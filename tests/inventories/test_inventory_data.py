"""Sizes, and what a node should be as read from flat host data."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.fields.sizes import format_size, parse_size
from gpu_node.inventories.fields.switched import Off
from gpu_node.inventories.keys import flat_key, leaf_paths
from gpu_node.inventories.schema import load
from gpu_node.inventories.wanted import LimitsWanted, NodeWanted, ShmWanted

HOST = {"address": "10.0.0.4"}
UNITS = ("K", "M", "G", "T")
written_sizes = st.builds(
    "{}{}".format, st.integers(min_value=1, max_value=8_388_607), st.sampled_from(UNITS)
)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("shm_siz", "8G", "found 'shm_siz' (no such key, did you mean shm_size?)"),
        ("driver_verion", "535", "did you mean driver_version?"),
        ("ShmSize", "8G", "did you mean shm_size?"),
        ("nccl-version", "2.18.3", "did you mean nccl_version?"),
        ("shm_siz", "8G", "; allowed: shm_size; next: write shm_size"),
        ("workspace", "/data", "next: write workspace_path: /data"),
        ("shm", {"size": "8G", "remove_ipc": False}, "found a mapping (only a cluster file has"),
        ("shm", {"size": "8G", "remove_ipc": False}, "shm_size: 8G, shm_remove_ipc: false"),
        ("shm", "40G", "next: write shm_size: 40G"),
        ("driver", "535", 'next: write driver_version: "535"'),
        ("gpu", "A100", "allowed: gpu_model, gpu_count; next: write gpu_model: A100"),
        ("limits", "131072", "next: write limits_nofile: 131072"),
        ("network", "auto", "next: write network_interface: auto"),
        ("launcher", "srun", "next: write one of the allowed keys"),
        ("launcher", "deepspeed", "next: write launcher_kind: deepspeed"),
        ("docker", True, "next: write one of the allowed keys"),
        ("nofile", 131072, "did you mean limits_nofile?"),
        ("memlock", "unlimited", "did you mean limits_memlock?"),
        ("ssh_usr", "bob", "did you mean ssh_user?"),
        ("ssh_keys", "~/.ssh/id_rsa", "did you mean ssh_key?"),
        ("sshport", 22, "did you mean ssh_port?"),
        ("ssh", "root", "allowed: ssh_mesh, ssh_hostname, "),
        ("ansible_host", "10.0.0.4", "next: write ssh_hostname"),
        ("ansible_user", "bob", "next: write ssh_user"),
        ("ansible_ssh_private_key_file", "~/.ssh/id", "next: write ssh_key"),
        ("ansible_become", True, "next: write _sudo"),
        ("ansible_python_interpreter", "/usr/bin/python3", "(a key of Ansible); allowed: ssh_host"),
        ("ansible_password", "x", "next: remove it: no password is stored in an inventory"),
    ],
)
def test_a_misspelt_key_of_a_hand_written_inventory(key: str, value: object, problem: str) -> None:
    """It would be passed over in silence: nothing would be judged, or repaired."""
    with pytest.raises(InventoryError) as error:
        NodeWanted.from_data({**HOST, key: value})
    assert str(error.value).startswith(f"{key}: found ") and problem in str(error.value)


@pytest.mark.parametrize(
    "key",
    [
        *("docker_version", "driver_class", "ssh_port", "_sudo", "cluster_nodes", "packages", "sh"),
        *("ssh_keys", "ssh_users", "sshd_port", "hostname", "user", "path", "python"),
    ],
)
def test_a_key_of_another_program_is_passed_over(key: str) -> None:
    """pyinfra's own, and what other deploys read from the same inventory."""
    assert NodeWanted.from_data({**HOST, key: {"a": 1}}) == NodeWanted.from_data(HOST)


@given(written_sizes)
def test_a_size_comes_back_as_the_same_bytes(text: str) -> None:
    size = parse_size(text)
    short = format_size(size)
    assert parse_size(short) == size
    assert len(short) <= len(text)


@given(st.integers(min_value=0, max_value=1 << 70))
def test_every_number_of_bytes_has_an_exact_text(size: int) -> None:
    number, unit = (format_size(size)[:-1], format_size(size)[-1:])
    factor = {"K": 10, "M": 20, "G": 30, "T": 40}.get(unit)
    assert size == (int(number) << factor if factor else int(number + unit))


@given(st.text(max_size=8))
def test_other_text_is_no_size(text: str) -> None:
    digits, unit = text[:-1], text[-1:]
    is_size = unit in UNITS and digits.isascii() and digits.isdigit() and digits[0] != "0"
    if not is_size:
        with pytest.raises(ValueError):
            parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(8 << 30, "8G"), (3 << 29, "1536M"), (64 << 20, "64M"), (1000, "1000"), (0, "0")],
)
def test_shortest_text(size: int, text: str) -> None:
    assert format_size(size) == text


@given(written_sizes, st.none() | st.just("unlimited") | written_sizes)
def test_sizes_in_data(shm: str, memlock: str | None) -> None:
    wanted = NodeWanted.from_data({**HOST, "shm_size": shm, "limits_memlock": memlock})
    assert wanted.shm == ShmWanted(size=parse_size(shm))
    if memlock is None:
        assert wanted.limits is None
    else:
        value = memlock if memlock == "unlimited" else parse_size(memlock)
        assert wanted.limits is not None
        assert wanted.limits.memlock == value


@pytest.mark.parametrize("day", [date(2026, 12, 24), "2026-12-24"], ids=["date", "text"])
def test_a_check_that_is_off_until_a_day(day: object) -> None:
    """As a Python inventory has it, or YAML; a group adds to what the defaults turn off."""
    checks = {"driver.next-boot": {"until": day, "reason": "reboot window"}, "shm": False}
    assert NodeWanted.from_data({**HOST, "checks": checks}).checks == {
        "driver.next-boot": Off(until=date(2026, 12, 24), reason="reboot window"),
        "shm": False,
    }


def test_levels_of_checks(tmp_path: Path) -> None:
    """The host's day, with the reason of the defaults; pyinfra reads what the report reads."""
    file = tmp_path / "c.yml"
    file.write_text(
        "cluster: c\n"
        "defaults: {checks: {shm: {until: 2026-12-24, reason: window}, ssh: false}}\n"
        "groups: {g: {checks: {ssh: {until: 2026-12-25, reason: moved}}}}\n"
        "hosts:\n"
        "  a: {address: 10.0.0.4, group: g, checks: {shm: {until: 2027-01-31}}}\n"
        "  b: {address: 10.0.0.5, checks: {shm: true}}\n"
    )
    cluster = load(file)
    moved = Off(until=date(2026, 12, 25), reason="moved")
    assert cluster.hosts["a"].wanted.checks == {
        "shm": Off(until=date(2027, 1, 31), reason="window"),
        "ssh": moved,
    }
    assert cluster.hosts["b"].wanted.checks == {"shm": True, "ssh": False}
    for name, host in cluster.hosts.items():
        assert NodeWanted.from_data(cluster.data_of(name)).checks == host.wanted.checks


def test_levels_of_settings(tmp_path: Path) -> None:
    """They add up, and the nearest level's value counts; numbers are as the kernel shows them."""
    file = tmp_path / "c.yml"
    file.write_text(
        "cluster: c\n"
        "defaults: {sysctl: {vm.swappiness: 1, net.ipv4.tcp_rmem: [4096, 131072, 6291456]}}\n"
        "groups: {g: {services: {tuned: enabled}, modprobe: {nvidia_peermem: true}}}\n"
        "hosts:\n"
        "  a: {address: 10.0.0.4, group: g, sysctl: {vm.swappiness: 10, kernel.pid_max: '65536'}}\n"
        "  b: {address: 10.0.0.5, services: {nvidia-dcgm: enabled}}\n"
    )
    cluster = load(file)
    for name, host in cluster.hosts.items():
        assert NodeWanted.from_data(cluster.data_of(name)) == host.wanted
        assert request_of(cluster.data_of(name)).sysctl == (*(host.wanted.sysctl or ()),)
    wanted = cluster.hosts["a"].wanted
    shared = {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert wanted.sysctl == {"vm.swappiness": "10", "kernel.pid_max": "65536", **shared}
    assert (wanted.services, wanted.modprobe) == ({"tuned": "enabled"}, {"nvidia_peermem": True})
    assert cluster.hosts["b"].wanted.sysctl == {"vm.swappiness": "1", **shared}


def test_the_flat_keys() -> None:
    """Each is the path of its key, joined; no two are the same."""
    keys = {path: flat_key(path) for path in leaf_paths(NodeWanted)}
    assert all(key == "_".join(map(str, path)) for path, key in keys.items())
    assert len({*keys.values()}) == len(keys)
    assert {*keys.values()} >= {
        *("address", "env", "directories", "workspaces", "gpu_model", "driver_packages_apt"),
        *("docker_default_ulimits_nofile", "limits_nofile", "toolchain_cmake_sha256", "ssh_mesh"),
        *("workspace_backup_keep", "network_interface", "nccl_repository_url", "checks"),
    }


def test_a_home_that_the_reader_of_a_variable_expands() -> None:
    """It stays as it is written, beside the others."""
    env = {"A": "1", "HF_HOME": "~/hf", "TORCH_HOME": "~/torch", "Z": "2"}
    assert NodeWanted.from_data({"env": env}).env == env


def test_foreign_keys_are_passed_over() -> None:
    data = {**HOST, "ssh_user": "root", "allow_disruption": True, "limits_nofile": 4096}
    assert NodeWanted.from_data(data) == NodeWanted(
        address="10.0.0.4", limits=LimitsWanted(nofile=4096)
    )


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"shm_size": "8Gb"}, "shm_size: found '8Gb'; allowed: a whole number with its unit"),
        ({"shm_size": 16}, "shm_size: found '16' (the unit is missing); allowed: "),
        ({"limits_nofile": "unlimited"}, "limits_nofile: found 'unlimited' (the kernel needs"),
        ({"limits_memlock": True}, "limits_memlock: found 'True'; allowed: unlimited"),
        ({"gpu_model": "A100"}, "gpu_count: found nothing; allowed: a whole number"),
        ({"gpu_model": "A100", "gpu_count": "2"}, "gpu_count: found '\"2\"'; allowed: "),
        ({"address": "a;b"}, "address: found 'a;b'; allowed: "),
        ({"shm_size": {"of": "8G"}}, "shm_size: found a mapping (it takes one value); allowed: "),
        ({"shm_size": [object()]}, "shm_size: found a list (it takes one value); allowed: "),
        ({"shm_size": "2024-99-99"}, "shm_size: found '2024-99-99'; allowed: "),
        ({"env": [{"name": [1]}, {"name": {}}]}, "env: found a list; allowed: "),
        ({"env": [{"A": object()}]}, "env: found a list; allowed: "),
        ({"shm_size": "shm: " + "[" * 190}, "shm_size: found 'shm: [[["),
    ],
)
def test_bad_data_is_named_by_its_flat_key(data: dict[str, Any], line: str) -> None:
    with pytest.raises(InventoryError) as error:
        NodeWanted.from_data({**HOST, **data})
    assert str(error.value).startswith(line)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InventoryError) as error:
        NodeWanted.from_data({"shm_size": "8 GB", "limits_stack": "unlimited"})
    keys = [line.partition(":")[0] for line in error.value.lines]
    assert sorted(keys) == ["limits_stack", "shm_size"]


def test_a_host_that_no_file_describes_wants_nothing() -> None:
    wanted = NodeWanted.from_data({"ssh_hostname": "10.1.2.3", "ssh_user": "root"})
    assert wanted.model_dump(exclude_none=True) == {"address": "10.1.2.3"}
