"""A tree of files goes from its source to nodes, and from these to others."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from gevent.lock import BoundedSemaphore
from pyinfra.api import Host, State

from gpu_node.deploy.workspace import rsync
from gpu_node.deploy.workspace.rsync import Removal, send
from gpu_node.deploy.workspace.senders import Sender, Senders, by_one, senders
from tests.clock import Clock
from tests.deploy.copies import PEER, Wire, listed

CHUNKS = 20
SOURCE = Sender("a100-01", "/data/ws")


def node(name: str) -> Host:
    return cast(Host, SimpleNamespace(name=name, print_prefix=f"[{name}] "))


def seconds(nodes: int) -> float:
    """Return how long a tree takes to so many nodes: a second for each of its chunks on a line.

    The lines are equal, and what a node sends at the same time shares its line.
    """
    known, clock = Senders(SOURCE), Clock()
    lines: dict[str, BoundedSemaphore] = defaultdict(BoundedSemaphore)

    def carry(sender: Sender) -> bool:
        for _ in range(CHUNKS):
            with lines[sender.node]:
                clock.sleep(1)
        return True

    def receive(name: str) -> None:
        assert by_one(known, node(name), "/data/ws", carry)
        known.add(Sender(name, "/data/ws"))

    clock.run(*(partial(receive, f"v100-{number}") for number in range(nodes)))
    return clock.monotonic()


def test_eight_nodes_take_four_times_as_long_as_one() -> None:
    """Each node that has the tree sends it on: four rounds, where the source alone needs eight."""
    assert seconds(1) == CHUNKS
    assert seconds(8) == 4 * CHUNKS


def test_the_source_sends_where_a_node_cannot(caplog: pytest.LogCaptureFixture) -> None:
    """A node that has it may not reach another one: the copy does not fail with it."""
    known = Senders(SOURCE)
    with known.one(), known.one():  # the source is busy
        known.add(Sender("v100-01", "/ws"))
        asked: list[str] = []

        def copy(sender: Sender) -> bool:
            asked.append(sender.node)
            return sender == SOURCE

        assert by_one(known, node("v100-02"), "/data/ws", copy)
    assert asked == ["v100-01", "a100-01"]
    assert "v100-01 could not send it; a100-01 sends it" in caplog.text


def test_a_copy_that_fails_leaves_its_sender_free() -> None:
    """The others do not wait for it."""
    known = Senders(SOURCE)
    for name in ("v100-01", "v100-02", "v100-03"):
        assert not by_one(known, node(name), "/data/ws", lambda _: False)
    with known.one() as first, known.one() as second:
        assert first == second == SOURCE


class Node(Wire):
    """A node whose commands run here."""

    connector = SimpleNamespace(
        run_shell_command=lambda command, show, print_input, **_: (
            True,
            SimpleNamespace(
                stdout_lines=subprocess.run(
                    ["sh", "-c", str(command)], capture_output=True, text=True, check=True
                ).stdout.splitlines()
            ),
        )
    )


@pytest.mark.parametrize("extra", [False, True])
def test_only_an_exact_copy_is_sent_on(
    folders: tuple[Path, Path], wire: Path, monkeypatch: pytest.MonkeyPatch, extra: bool
) -> None:
    """A file that only this node has stays here, and does not get to the others."""
    source, target = folders
    if not extra:
        (target / "own.log").unlink()
    monkeypatch.setattr(rsync, "of_operation", lambda state, host: {})
    state = State()
    digest = listed(source).digest
    host, places = cast(Host, Node()), (str(source), str(target))
    version, peer, removal = "3.2.7", PEER.model_dump(), Removal()
    assert send(state, host, "controller", *places, ["cache/*"], version, peer, 10, removal, digest)
    known = senders(state, Sender("controller", str(source)), digest)
    found = {known._free.get(block=False) for _ in range(4 if not extra else 2)}
    assert {each.node for each in found} == {"controller", *(() if extra else ("v100-01",))}
