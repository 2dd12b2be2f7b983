"""`gpu-node fit`: how it asks the nodes, what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from paramiko import Channel, ECDSAKey

from gpu_node.cli.asking import ask, offline_hosts
from gpu_node.cli.main import main
from gpu_node.drift.fit.node import SECTIONS
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.offline import scripts
from gpu_node.facts.node import SECTIONS as ALL
from tests.drift import hostile, states
from tests.hostile_nodes import reply
from tests.onboarding.serving import at_home, serving

TORCH = {"version": "2.1.2+cu121", "cuda": "12.1"}
WHOLE = {"nccl": {"environments": {"/opt/e": {"torch": TORCH}}}}
Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command with the answers of some nodes: exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def ran(nodes: dict[str, Answer] | None, *words: str) -> tuple[object, str, str]:
        if nodes is not None:
            monkeypatch.setattr("gpu_node.cli.asking.gather", lambda *_, **__: nodes)
        monkeypatch.setattr(sys, "argv", ["gpu-node", "fit", str(folder / "site.py"), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    return ran


def answer(change: Any) -> Answer:
    return Answer(states.BASE["wanted"], states.state(change), reached=True)


def test_nothing_to_change(run: Run) -> None:
    code, out, err = run({"a-01": answer(WHOLE), "a-02": answer(WHOLE)})
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1] == "2 nodes: nothing to change."
    assert lines[1].split()[:2] == ["a-01", "fits"]
    assert "driver  555 ... 620 (10)" in out and "it needs Linux 4.15 or newer" in out


def test_changes(run: Run) -> None:
    """Of the node without a torch; the JSON has the same, and the source of each reason."""
    nodes = {"a-01": answer(WHOLE), "a-02": answer({})}
    code, out, err = run(nodes)
    assert (code, err) == (2, "")
    assert "The shortest way, 1 change on 1 node:" in out
    code, out, _ = run(nodes, "--format", "json")
    found = json.loads(out)
    assert code == 2 and found["schema"] == 1
    assert found["nodes"]["a-02"]["status"] == "change" and found["fits"]["cuda"][0] == "11.7"
    assert found["set"]["torch"] == dict(torch="2.1.2", cuda="12.1", wheel="default", nccl="2.18.1")
    assert [each["node"] for each in found["changes"]] == ["a-02"]
    assert "open-gpu-kernel-modules" in found["sources"]["drivers.tsv"]


def test_an_unknown_node_wins(run: Run) -> None:
    """Over changes: nothing is known of what it needs."""
    lost = Answer(states.BASE["wanted"], error="Could not connect")
    code, out, _ = run({"a-01": answer({}), "a-02": lost})
    assert code == 1
    assert "a-02 is unknown: no answer: Could not connect; its GPUs count, 2 x A100" in out


def test_a_node_that_does_not_answer_has_the_models_of_the_inventory(run: Run) -> None:
    """What its GPUs rule out is out; the rest of it stays unknown, and so does the exit code."""
    wanted = {**states.BASE["wanted"], "gpu_model": "V100", "gpu_count": 2}
    lost = Answer(wanted, error="Could not connect")
    code, out, _ = run({"a-01": answer(WHOLE), "v-01": lost})
    assert code == 1
    text = " ".join(out.split())
    assert "branch 580 is the last that supports V100 v-01" in text, out
    assert "v-01 is unknown: no answer: Could not connect" in text
    assert "its GPUs count, 2 x V100, as the inventory says" in text
    _, out, _ = run({"a-01": answer(WHOLE), "v-01": lost}, "--format", "json")
    found = json.loads(out)["nodes"]["v-01"]
    assert found["status"] == "unknown" and "V100" in found["gpus"]


def test_one_exec_of_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script asks the sections that decide it, and no other; the rest of the state is None."""
    at_home(monkeypatch, tmp_path)
    key, asked = ECDSAKey.generate(), []

    def answers(channel: Channel, command: bytes) -> None:
        with channel.makefile("rb") as given:
            asked.append(given.read().decode())
        reply(channel, "\n".join(hostile.output({})).encode())

    with serving(tmp_path / "server", "127.0.0.1") as sshd:
        sshd.authorized, sshd.answer = [key], answers
        key.write_private_key_file(str(tmp_path / "key"))
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n")
        (tmp_path / "site.yml").write_text(
            "cluster: c\ndefaults: {ssh: {user: root, key: key, known_hosts: known_hosts}}\n"
            f"hosts: {{a-01: {{address: 127.0.0.1, ssh: {{port: {sshd.port}}}}}}}\n"
        )
        (seen,) = ask(str(tmp_path / "site.yml"), only=SECTIONS).values()
    assert seen.state is not None, seen.error
    (script,) = asked
    needed = [each.name for each in ALL if each.name.startswith(SECTIONS)]
    assert [name for name in needed if name not in script] == []
    assert "shm.mount" not in script and "driver.dkms" not in script
    assert seen.state.shm.mount is None and seen.state.toolchain.platform is not None
    assert not [each for each in seen.state.unreadable if not each.section.startswith(SECTIONS)]


def test_answers_that_were_brought(run: Run, folder: Path) -> None:
    """As of drift: what a script of `gpu-node probe` printed; no node is contacted."""
    (script,) = scripts(offline_hosts(str(folder / "site.py"), ()), version("gpu-node"))
    head = f"\n@@gpu-node script {script.digest} a100-01 {time.time():.0f} m m-boot\n"
    (folder / "a100-01.txt").write_text(head + "\n".join(hostile.output({})))
    code, out, err = run(None, "--answers", str(folder), "--format", "json")
    node = json.loads(out)["nodes"]["a100-01"]
    assert (node["machine"], err) == ("x86_64", "")
    assert "no answer" not in node["unknown"] and code in (0, 1, 2)
