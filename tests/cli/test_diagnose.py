"""`gpu-node diagnose --inventory`: what the nodes have now beside the cause that a log shows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.cli.main import main
from gpu_node.facts.ask.gather import Answer
from tests.commands import run
from tests.drift import states

LOG = (
    "NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes: No space left on device\n"
)
SITE = """cluster: site
defaults: {shm: {size: 8G}}
hosts:
  a100-01: {address: 127.0.0.9, ssh: {port: 9}}
"""


def test_a_node_that_does_not_answer_changes_no_exit_code(tmp_path: Path) -> None:
    """It is named, and no rule has an answer there."""
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "site.yml").write_text(SITE)
    words = ("diagnose", f"{tmp_path}/train.log", "--inventory", f"{tmp_path}/site.yml")
    done = run("gpu-node", *words)
    assert done.code == 0, done.err
    assert "cause.shm-too-small" in done.out
    assert "no answer from a100-01" in done.out
    assert "shm.too-small: not judged on a100-01: the node is unreachable" in done.out
    read = json.loads(run("gpu-node", *words, "--format", "json").out)
    assert read["verdict"] == "cause"
    assert [*read["no_answer"]] == ["a100-01"]
    silent = {"a100-01": "the node is unreachable"}
    shm = {"rule": "shm.too-small", "nodes": [], "noted": {}, "not_judged": silent}
    assert shm in read["candidates"][0]["rules"]


def test_this_machine(tmp_path: Path) -> None:
    """Each rule of the cause is judged on it, and named."""
    (tmp_path / "train.log").write_text(LOG)
    done = run("gpu-node", "diagnose", f"{tmp_path}/train.log", "--inventory", "@local")
    assert done.code == 0, done.err
    assert "shm.stale-segments: " in done.out
    assert "@local" in done.out


NO_ROUTE = "OSError: [Errno 113] No route to host\n"
NO_SSH = "ssh: connect to host v100-01 port 22: Connection refused\n"
TAKEN = "Process 7 has 9.50 GiB memory in use. Process 8 has 1.00 GiB memory in use.\n"
SMALL = {"shm": {"usage": {"size": 67108864}, "fstab": []}}
UNREAD = {
    "shm": {"usage": None},
    "unreadable": [{"area": "shm", "section": "shm.usage", "reason": "no answer within 5 s"}],
}
PEERS = [{"name": name, "address": name} for name in ("a100-01", "v100-01")]
NEWCOMER = "by gpu-node onboard, of a server that is to become a node"


@pytest.fixture
def diagnosed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Return what the command prints of a log, a line as one: of the log alone, or with nodes.

    A node is what is found there, changed, and what its inventory says, changed.
    """

    def diagnosed(log: str, **nodes: tuple[dict[str, Any], dict[str, Any]]) -> str:
        answers = {
            name.replace("_", "-"): Answer(
                {**states.BASE["wanted"], "cluster_nodes": PEERS, **wanted},
                states.state(states.named(found, name.replace("_", "-"))),
                reached=True,
            )
            for name, (found, wanted) in nodes.items()
        }
        monkeypatch.setattr("gpu_node.cli.asking.gather", lambda *_, **__: answers)
        monkeypatch.setenv("COLUMNS", "400")
        (folder / "train.log").write_text(log)
        asked = ["--inventory", str(folder / "site.py")] if nodes else []
        monkeypatch.setattr(sys, "argv", ["gpu-node", "diagnose", f"{folder}/train.log", *asked])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    return diagnosed


@pytest.mark.parametrize(
    ("log", "rule"),
    [(NO_ROUTE, "network.route-wrong"), (NO_SSH, "ssh.unreachable"), (TAKEN, "driver.in-use")],
)
def test_a_rule_that_no_report_judges(diagnosed: Callable[..., str], log: str, rule: str) -> None:
    """No node was judged by it, and no report is: the command that judges it is named."""
    out = diagnosed(log, a100_01=({}, {}), v100_01=({}, {}))
    assert f"{rule}: not judged on a100-01, v100-01: it is judged {NEWCOMER}" in out
    assert f"{rule}: judged {NEWCOMER}" in diagnosed(log)


@pytest.mark.parametrize(
    ("found", "wanted", "why"),
    [
        (SMALL, {"checks": {"shm.too-small": False}}, "`checks` of the inventory turns it off"),
        (SMALL, {"gpu_model": "none"}, "gpu: none in the inventory: the node is not for jobs"),
        (UNREAD, {}, "shm.usage: no answer within 5 s"),
    ],
    ids=["off", "a cpu node", "unread"],
)
def test_a_node_that_was_not_judged(
    diagnosed: Callable[..., str], found: dict[str, Any], wanted: dict[str, Any], why: str
) -> None:
    """It is no node without a finding: each says what holds for it."""
    out = diagnosed(LOG, a100_01=(SMALL, {}), a100_02=({}, {}), v100_01=(found, wanted))
    has = "shm.too-small: finding now on a100-01; no finding now on a100-02; "
    assert f"{has}not judged on v100-01: {why}" in out


def test_what_cannot_be_determined_confirms_nothing(diagnosed: Callable[..., str]) -> None:
    """A finding for information is shown in its words, and not as one of the rule."""
    file = {
        "inode": 4,
        "modified": 1755816069,
        "size": 4096,
        "mode": "600",
        "uid": 7,
        "owner": "bob",
    }
    held = {"unseen": [{"uids": [0], "name": "pod"}], "unused": [{"name": "nccl-a", **file}]}
    out = diagnosed(LOG, a100_01=({"shm": {"use": held}}, {}), v100_01=({}, {}))
    doubt = "nccl-a; cannot determine whether they are in use"
    assert "shm.stale-segments: no finding now on v100-01; note on a100-01: 1 file, 4K, " in out
    assert doubt in out


def test_a_node_that_was_compared_with_none(diagnosed: Callable[..., str]) -> None:
    """A rule between nodes says nothing of the only one that answers."""
    log = "RuntimeError: NCCL error: Mismatched NCCL version detected : rank 0 NCCL 2.18\n"
    out = diagnosed(log, a100_01=({}, {}))
    assert "nccl.differs: not judged on a100-01: no other node was read" in out
    both = diagnosed(log, a100_01=({}, {}), v100_01=({}, {}))
    assert "nccl.differs: no finding now on a100-01, v100-01" in both
