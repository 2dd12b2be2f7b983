"""`gpu-node lab status` shows which running nodes have no SSH, and is fast."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from click.testing import CliRunner

from gpu_node.cli.lab import lab
from gpu_node.lab import answering, nodes, podman, prerequisites, roster

HEALTHY = """\
node       address         state
a100-01    10.168.144.4    running
v100-01    10.168.144.5    running
v100-02    10.168.144.6    running
mirror     10.168.144.2    running
"""


@pytest.fixture(autouse=True)
def everything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "which", lambda _: "/usr/bin/podman")
    found = {name: container(name) for name in (*roster.NODES, roster.MIRROR)}
    monkeypatch.setattr(podman, "containers", lambda: {c.name: c for c in found.values()})


def container(name: str, state: str = "running") -> podman.Container:
    labels = {podman.REPOSITORY_LABEL: str(roster.REPOSITORY)}
    return podman.Container(roster.PREFIX + name, state, labels)


def answer(monkeypatch: pytest.MonkeyPatch, *silent: str) -> None:
    """Let the sshd of all other nodes send a version line."""
    addresses = {roster.NODES[name].address for name in silent}
    monkeypatch.setattr(answering, "greets", lambda address: address not in addresses)


def test_the_healthy_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch)
    assert CliRunner().invoke(lab, ["status"]).stdout == HEALTHY


def test_a_node_without_sshd_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "v100-01")
    output = CliRunner().invoke(lab, ["status"]).stdout
    wanted = "v100-01    10.168.144.5    running, no SSH\n"
    assert output == HEALTHY.replace("v100-01    10.168.144.5    running\n", wanted)


def test_a_stopped_node_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = container("v100-01", "exited")
    monkeypatch.setattr(podman, "containers", lambda: {stopped.name: stopped})
    monkeypatch.setattr(answering, "greets", lambda _: pytest.fail("asked"))
    assert [state for _, _, state in nodes.status()] == ["absent", "exited", "absent", "absent"]


def test_all_nodes_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(len(roster.NODES))

    def greets(address: str) -> bool:
        together.wait(timeout=5)
        return True

    monkeypatch.setattr(answering, "greets", greets)
    assert {state for _, _, state in nodes.status()} == {"running"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Every address leads to this server."""
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = listening.getsockname()
        monkeypatch.setattr(socket, "create_connection", lambda _, timeout: connect(here, timeout))
        yield listening


@pytest.mark.parametrize(
    ("greeting", "greets"), [(b"SSH-2.0-x\r\n", True), (b"HTTP/1.1 400\r\n", False)]
)
def test_a_greeting_is_that_of_ssh(server: socket.socket, greeting: bytes, greets: bool) -> None:
    with ThreadPoolExecutor() as beside:
        asked = beside.submit(answering.greets, "10.168.144.4")
        with server.accept()[0] as connection:
            connection.sendall(greeting)
            assert asked.result() == greets


def test_who_accepts_and_is_silent_does_not_greet(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "GREETING", 0.1)
    assert not answering.greets("10.168.144.4")


def test_who_is_not_there_does_not_greet(server: socket.socket) -> None:
    server.close()
    assert not answering.greets("10.168.144.4")
