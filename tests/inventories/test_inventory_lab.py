"""lab.py as pyinfra's own command line takes it: groups, precedence, refusals, exit codes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.network.ifname import wanted_blocks
from gpu_node.inventories.wanted import NodeWanted
from tests.commands import run
from tests.drift import states
from tests.inventories.conftest import loaded, options_of, refused

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The lab's two inventory files beside a key and known hosts of their own."""
    folder = tmp_path / "inventories"
    folder.mkdir()
    for name in ("lab.py", "lab.yml"):
        shutil.copy(ROOT / "inventories" / name, folder)
    (tmp_path / ".lab").mkdir()
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / ".lab" / name).touch()
    (tmp_path / ".lab" / "repository.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    return folder / "lab.py"


def hosts(inventory: Path, *options: str) -> dict[str, Any]:
    done = run("pyinfra", str(inventory), *options, "debug-inventory", "--json")
    assert done.code == 0, done.err
    return {host["name"]: host for host in json.loads(done.out)}


def test_the_lab(lab: Path) -> None:
    """The file that the README uses: every key that a step or a rule asks for."""
    found = hosts(lab)
    assert {name: host["groups"] for name, host in found.items()} == {
        "a100-01": ["a100", "lab"],
        "v100-01": ["v100", "lab"],
    }
    data = found["v100-01"]["data"]
    assert data["ssh_hostname"] == data["address"] == "10.168.144.5"
    assert (data["gpu_model"], data["gpu_count"], data["shm_size"]) == ("V100", 2, "8G")
    assert data["ssh_known_hosts_file"] == str(lab.parents[1] / ".lab" / "known_hosts")
    assert data["ssh_strict_host_key_checking"] == "yes"
    assert data["toolchain_cmake_version"] == "3.25.2"


def test_host_beats_group_beats_defaults_beneath_data(lab: Path) -> None:
    text = lab.with_suffix(".yml").read_text()
    text = text.replace("model: A100, count: 2}", "model: A100, count: 2}\n    shm: {size: 16G}")
    text = text.replace("10.168.144.4, ", "10.168.144.4, gpu: {count: 8}, ")
    lab.with_suffix(".yml").write_text(text)
    options = ("--data", "shm_size=32G", "--data", "allow_disruption=true", "--data", "shy=1")
    data = {name: host["data"] for name, host in hosts(lab, *options).items()}
    assert (data["a100-01"]["shm_size"], data["a100-01"]["gpu_count"]) == ("32G", 8)
    assert (data["v100-01"]["shy"], data["v100-01"]["gpu_count"]) == (1, 2)


def test_cards_that_have_other_names_on_a_node(lab: Path) -> None:
    """A host's variables are beside those of all nodes, and its ~/.bashrc exports its own."""
    text = lab.with_suffix(".yml").read_text()
    for address, own in {
        "10.168.144.4": "{NCCL_IB_HCA: mlx5_0}",
        "10.168.144.5": '{NCCL_IB_HCA: rocep1s0f0, NCCL_IB_GID_INDEX: "3"}',
    }.items():
        text = text.replace(f"{address}, ", f"{address}, env: {own}, ")
    lab.with_suffix(".yml").write_text(text)
    exported = {}
    for name, host in hosts(lab).items():
        values = wanted_blocks(states.state(), NodeWanted.from_data(host["data"]).env or {})
        exported[name] = [line for line in values.top.split("\n") if line]
    threads, card, index = (
        "OMP_NUM_THREADS='4'",
        "NCCL_IB_HCA='rocep1s0f0'",
        "NCCL_IB_GID_INDEX='3'",
    )
    assert exported == {
        "a100-01": [f"export {each}" for each in (threads, "NCCL_IB_HCA='mlx5_0'")],
        "v100-01": [f"export {each}" for each in (threads, card, index)],
    }


@pytest.mark.parametrize("option", ["--limit", "--exclude"])
def test_a_name_that_matches_nothing_is_refused(lab: Path, option: str) -> None:
    """pyinfra alone says "no host matches", does nothing and exits 0."""
    allowed = "a100, v100, a100-01, v100-01, or a pattern with * or ?"
    why = "matches no host, did you mean v100?"
    assert refused(lab, "--limit", "a100", option, "v10") == [
        f"{option}: found 'v10' ({why}); allowed: {allowed}"
    ]


def test_excluding_every_host_is_refused(lab: Path) -> None:
    message = "--exclude: found every host; allowed: fewer, so that at least one host is left"
    assert refused(lab, "--limit", "a100", "--exclude", "a*") == [message]


def test_bad_data_is_refused_before_any_node_is_contacted(lab: Path) -> None:
    (line,) = refused(lab, "--data", "shm_size=8Gb")
    assert line.startswith("--data shm_size: found '8Gb'; allowed: ")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("shm_siz", ", did you mean shm_size?"),
        ("shm.size", ", did you mean shm_size?"),
        ("shmsize", ", did you mean shm_size?"),
        ("SHM_SIZE", ", did you mean shm_size?"),
        ("limit_nofile", ", did you mean limits_nofile?"),
    ],
)
def test_a_misspelt_key_is_refused(lab: Path, key: str, hint: str) -> None:
    (line,) = refused(lab, "--data", f"{key}=8G")
    assert line.startswith(f"--data: found '{key}' (no such key{hint}); allowed: gpu_model, ")


@pytest.mark.parametrize(
    "key", ["ssh_port", "ssh_timeout", "_sudo", "_shell_executable", "shy", "x"]
)
def test_a_key_unlike_ours_is_passed_on(lab: Path, key: str) -> None:
    with options_of(str(lab), "--data", f"{key}=1"):
        data = loaded(str(lab), **{key: 1}).get_host("a100-01").data
    assert data.get(key) == 1


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("reboot=yes", "--data reboot: found 'yes'; allowed: true or false"),
        ("allow_disruption=1", "--data allow_disruption: found '1'; allowed: true or false"),
        ("rebot=true", "did you mean reboot?"),
        ("alow_disruption=true", "did you mean allow_disruption?"),
        ("area=ssh", "did you mean areas?"),
        ("areas=shh", "--data areas: found 'shh' (no such name"),
        ("areas=ssh,mesh", "found 'mesh' (no such name"),
        ("areas=3", "found '3' (no such name"),
        ("change=a100-1", "did you mean a100-01?); allowed: a100-01, v100-01, several with commas"),
    ],
)
def test_a_switch_that_would_be_off_unseen(lab: Path, word: str, says: str) -> None:
    """A misspelled reboot is an error, not a run without a reboot."""
    (line,) = refused(lab, "--data", word)
    assert says in line
