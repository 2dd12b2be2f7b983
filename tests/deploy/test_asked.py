"""How often a run asks its nodes: once before it, and once after it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paramiko import Channel, ECDSAKey
from pyinfra.api import Host
from pyinfra.api.host import HostData

from gpu_node.deploy.engine import baseline
from gpu_node.deploy.engine.run import Run
from gpu_node.facts.ask import session
from gpu_node.facts.ask.patience import Patience
from gpu_node.facts.probe.protocol import MARK
from gpu_node.inventories.wanted import NodeWanted
from tests.commands import Ended, run
from tests.drift import hostile, states
from tests.hostile_nodes import reply
from tests.onboarding.serving import Sshd, serving

NAMES = ("a-01", "a-02")
CLUSTER = """cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts}
  directories: [{path: /data, mode: "775"}]
hosts:
"""
DIRECTORIES = "workspace.directories"
ROOT = {"limits.user": "0 root\n0 root", "limits.unsettled": ""}


@dataclass
class Node:
    """A node whose /data gets its mode by a run; `asked` counts the probes."""

    sshd: Sshd
    sections: dict[str, str] = field(default_factory=dict)
    mode: str = "755"
    asked: int = 0
    breaks: bool = False

    def answer(self, channel: Channel, command: bytes) -> None:
        """Answer a probe, a fact about /data, and the script that changes it."""
        with channel.makefile("rb") as given:
            stdin = given.read()
        folder = f"/data\t{self.mode}|root|root|||directory"
        if b"shm.size" in stdin:
            self.asked += 1
            found = {**ROOT, DIRECTORIES: folder, **self.sections}
            return reply(channel, "\n".join(hostile.output(found)).encode())
        if DIRECTORIES.encode() in command:
            text = folder.encode().hex()
            head, end = f"{MARK} begin {DIRECTORIES} 0 hex {len(text)}", f"{MARK} end {DIRECTORIES}"
            return reply(channel, f"\n{head}\n{text}\n{end}\n\n{MARK} done\n".encode())
        if b"mkdir -p" in command and self.breaks:
            channel.get_transport().close()
            return None
        if b"mkdir -p" in command:
            self.mode = "775"
        return reply(channel, b"")


@dataclass
class Site:
    """An inventory and its nodes."""

    file: Path
    nodes: dict[str, Node]

    def deploy(self, *words: str) -> Ended:
        """Run the command."""
        return run("gpu-node", "deploy", str(self.file), "--areas", "workspace", *words)

    @property
    def asked(self) -> list[int]:
        """How often each node was asked."""
        return [node.asked for node in self.nodes.values()]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "key"))
    made = Site(tmp_path / "site.yml", {})
    lines, pins = [CLUSTER], []
    with ExitStack() as stack:
        for number, name in enumerate(NAMES, 1):
            address = f"127.0.0.{number}"
            sshd = stack.enter_context(serving(tmp_path / name, address))
            node = made.nodes[name] = Node(sshd)
            sshd.authorized, sshd.answer = [key], node.answer
            lines.append(f"  {name}: {{address: {address}, ssh: {{port: {sshd.port}}}}}\n")
            pins.append(f"[{address}]:{sshd.port} {sshd.host_key}\n")
        (tmp_path / "known_hosts").write_text("".join(pins))
        made.file.write_text("".join(lines))
        yield made


@dataclass(frozen=True)
class Row:
    """The words of a run, its exit code, and how often it asks the first and the second node."""

    asked: list[int]
    words: tuple[str, ...] = ("-y",)
    code: int = 0
    # What the first node answers, and whether its connection breaks at the change.
    sections: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False


SETTLED = {"limits.unsettled": hostile.answers()["limits.unsettled"][0]}
# What the first ask has is not all of it, is not so any more, or there is no second one.
ROWS = {
    "each": Row([2, 2]),
    "a dry run": Row([1, 1], ("--dry",)),
    "a batch after the first": Row([4, 4], ("-y", "--batch", "1")),
    "a settled change": Row([3, 2], sections=SETTLED),
    "without root": Row([3, 2], code=1, sections={"limits.user": "1000 alice\n1000 alice"}),
    "not reached by the proof": Row([2, 2], code=1, breaks=True),
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name, marks=() if name == "each" else pytest.mark.slow)
        for name, row in ROWS.items()
    ],
)
def test_once_before_and_once_after(site: Site, row: Row) -> None:
    """But for what the answers before it do not have."""
    first, second = site.nodes.values()
    first.sections, first.breaks = dict(row.sections), row.breaks
    done = site.deploy(*row.words)
    assert (done.code, site.asked) == (row.code, row.asked), done
    assert second.mode == ("775" if "-y" in row.words else "755")
    assert ("repaired" in done.out) == ("-y" in row.words)


@pytest.mark.slow
def test_pyinfra_asks_itself(site: Site) -> None:
    """Before and after, as there is no answer to take over."""
    words = ("-y", f"@gpu-node/{site.file}", "deploy/gpu_node.py", "--data", "areas=workspace")
    done = run("pyinfra", *words)
    assert (done.code, site.asked) == (0, [2, 2]), done


KEY = "ssh-ed25519 AAAA"
# What a node was wanted to have, its answer's age in seconds, the key of the session: is it taken?
TAKEN: dict[str, tuple[dict[str, Any], float, str, bool]] = {
    "at once": ({}, 0, KEY, True),
    "after two minutes": ({}, baseline.MOST_SECONDS + 1, KEY, False),
    "before it was given": ({}, -60, KEY, False),
    "of another machine": ({}, 0, "ssh-ed25519 BBBB", False),
    "to another inventory": ({"shm_size": "9G"}, 0, KEY, False),
}


@pytest.mark.parametrize(("change", "age", "key", "is_taken"), TAKEN.values(), ids=TAKEN)
def test_an_answer_that_is_handed_on(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], age: float, key: str, is_taken: bool
) -> None:
    """As JSON it is the same state; without it the node is asked."""
    data = states.BASE["wanted"]
    asked = {"clock": {"asked": time.time() - age}, "ssh": {"reached": KEY}}
    before, now = states.state(asked), states.state()
    given = json.dumps({"a": baseline.handed(NodeWanted.from_data(data | change), before)})
    monkeypatch.setattr(Run, "from_parent", json.loads(given))
    monkeypatch.setattr(session, "_host_key", lambda connector: key)
    monkeypatch.setattr(baseline, "probe", lambda host: now)
    monkeypatch.setattr(baseline, "tune", lambda connector: None)
    for name, found in {"a": before if is_taken else now, "b": now}.items():
        host = SimpleNamespace(name=name, data=HostData(cast(Host, None), data), connector=None)
        assert baseline._ask(cast(Host, host), Patience(1)) == found
