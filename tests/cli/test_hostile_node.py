"""A report over two healthy nodes and one that does its worst: the two are as if it were away."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from paramiko import ECDSAKey

from tests.cli.conftest import INVENTORY
from tests.commands import BIN
from tests.hostile_nodes import (
    LIES,
    MOST_KIB,
    MOST_SECONDS,
    Honest,
    Reply,
    endless,
    garbage,
    lying,
    measured,
    reply,
    silent,
)
from tests.onboarding.serving import Sshd, serving

pytestmark = pytest.mark.slow

CLUSTER = """cluster: hostile
defaults:
  ssh: {{user: root, key: key, known_hosts: known_hosts}}
  shm: {{size: 8G}}
  env: {{NCCL_DEBUG: WARN}}
groups:
  a100: {{}}
hosts:
  good-01: {{address: 127.0.0.1, group: a100, ssh: {{port: {ports[0]}}}}}
  good-02: {{address: 127.0.0.2, group: a100, ssh: {{port: {ports[1]}}}}}
  evil-01: {{address: 127.0.0.3, group: a100, ssh: {{port: {ports[2]}}}}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Path, list[Sshd], Honest]]:
    """An inventory of three nodes that are this machine; the last is to be the hostile one."""
    honest, mine = Honest(), ECDSAKey.generate()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = [f"127.0.0.{number}" for number in (1, 2, 3)]
        sshds = [stack.enter_context(serving(folder / each, each)) for each in hosts]
        for each in sshds:
            each.authorized, each.answer = [mine], honest
        mine.write_private_key_file(str(folder / "key"))
        pairs = zip(hosts, sshds, strict=True)
        pins = [f"[{host}]:{each.port} {each.host_key}\n" for host, each in pairs]
        (folder / "known_hosts").write_text("".join(pins))
        (folder / "nodes.py").write_text(INVENTORY)
        text = CLUSTER.format(ports=[each.port for each in sshds])
        (folder / "nodes.yml").write_text(text)
        yield folder, sshds, honest


def reported(folder: Path) -> tuple[str, float, int]:
    """The report as JSON, the seconds it took, and the memory in KiB."""
    words = ("drift", folder / "nodes.py", "--format", "json")
    done, seconds, memory = measured(BIN / "gpu-node", *words)
    assert done.returncode in (1, 2), done.stderr
    return done.stdout, seconds, memory


def planned(folder: Path) -> tuple[list[str], float, int]:
    """What a dry deploy prints of the healthy nodes, and what it costs."""
    words = ("--dry", folder / "nodes.py", "deploy/gpu_node.py")
    done, seconds, memory = measured(BIN / "pyinfra", *words)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    # A change is printed with the number and the names of its nodes.
    text = re.sub(r" +\d+ \((.*)\) *-", lambda found: f": {found[1]}", text)
    lines = [line.replace("evil-01, ", "").strip() for line in text.splitlines()]
    return sorted(line for line in lines if "good-0" in line), seconds, memory


def healthy(report: str) -> dict[str, Any]:
    """What a report has of the healthy nodes, less findings that name the other."""
    hosts = json.loads(report)["hosts"]
    for name in ("good-01", "good-02"):
        # They repeat one recorded answer of one machine, with the time of the recording.
        repeated = ("clock.skew", "host.one-machine")
        findings = [each for each in hosts[name]["findings"] if each["rule"] not in repeated]
        hosts[name]["findings"] = [each for each in findings if "evil-01" not in str(each)]
        hosts[name]["facts"].pop("clock", None)
    return {name: hosts[name] for name in ("good-01", "good-02")}


@pytest.fixture(scope="module")
def without(cluster: tuple[Path, list[Sshd], Honest]) -> dict[str, Any]:
    """What is reported of the healthy nodes where the other takes no command."""
    folder, sshds, _ = cluster
    sshds[2].answer = lambda channel, _: reply(channel, b"", 1)
    return healthy(reported(folder)[0])


def compare(
    cluster: tuple[Path, list[Sshd], Honest], without: dict[str, Any], evil: Reply
) -> dict[str, Any]:
    """Report with a hostile node; return the result for it."""
    folder, sshds, _ = cluster
    sshds[2].answer = evil
    report, seconds, memory = reported(folder)
    assert healthy(report) == without
    assert all(each["status"] in ("ok", "drift") for each in healthy(report).values())
    assert seconds < MOST_SECONDS
    assert memory < MOST_KIB
    evil_one: dict[str, Any] = json.loads(report)["hosts"]["evil-01"]
    return evil_one


@pytest.mark.parametrize(
    ("evil", "error"), [(endless, "sent more than 16 MiB in answer"), (garbage, "")]
)
def test_a_node_without_end(
    cluster: tuple[Path, list[Sshd], Honest], without: dict[str, Any], evil: Reply, error: str
) -> None:
    """The others are judged as without it, in time and in little memory."""
    found = compare(cluster, without, evil)
    assert found["status"] in ("unreadable", "unreachable")
    assert error in (found["error"] or "")


@pytest.fixture(scope="module")
def planned_without(cluster: tuple[Path, list[Sshd], Honest]) -> list[str]:
    """What a dry deploy prints of the healthy nodes where the other takes no command."""
    folder, sshds, _ = cluster
    sshds[2].answer = lambda channel, _: reply(channel, b"", 1)
    return planned(folder)[0]


@pytest.mark.parametrize("evil", [endless, garbage])
def test_a_deploy_beside_a_node_without_end(
    cluster: tuple[Path, list[Sshd], Honest], planned_without: list[str], evil: Reply
) -> None:
    """A dry run prints the same of the others, in time and in little memory."""
    folder, sshds, _ = cluster
    sshds[2].answer = evil
    lines, seconds, memory = planned(folder)
    assert lines == planned_without != []
    assert seconds < MOST_SECONDS
    assert memory < MOST_KIB


def test_a_silent_node(cluster: tuple[Path, list[Sshd], Honest], without: dict[str, Any]) -> None:
    """It is given up once the others have answered."""
    assert "sent nothing for 30 s" in compare(cluster, without, silent)["error"]


@pytest.mark.parametrize("lie", LIES)
def test_a_node_that_lies(
    cluster: tuple[Path, list[Sshd], Honest], without: dict[str, Any], lie: str
) -> None:
    """Whatever each of its sections says."""
    compare(cluster, without, lying(cluster[2], LIES[lie]))
