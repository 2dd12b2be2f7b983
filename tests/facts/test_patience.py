"""A node that says nothing is given up when the others have answered; alone it has its time."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import gevent
import pytest
from pyinfra.api import Host

from gpu_node.facts.ask import patience, waiting
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.probe.protocol import Section, read, render
from tests.shells import as_lines, run


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a third of a second in the place of 30."""
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(waiting, "LAST_SECONDS", 1.5)
    monkeypatch.setattr(patience, "_LOOK_SECONDS", 0.02)


def host(name: str, speaks: bool = False) -> Host:
    """A node; one that speaks has brought something just now, whenever that is asked."""

    class Packetizer:
        @property
        def heard(self) -> float:
            return time.monotonic()

    transport = SimpleNamespace(packetizer=Packetizer() if speaks else None)
    client = SimpleNamespace(get_transport=lambda: transport)
    made = SimpleNamespace(name=name, connector=SimpleNamespace(client=client))
    return cast(Host, made)


def asked(
    seconds: dict[str, float], *errors: str, speaks: str = "", last: float | None = None
) -> dict[str, str]:
    """Ask nodes that take so long, some of which end in an error."""
    watching = Patience(len(seconds), last)

    def one(name: str) -> str:
        try:
            with watching.asking(host(name, name == speaks)):
                gevent.sleep(seconds[name])
                if name in errors:
                    raise OSError
                return "answered"
        except GivenUp as error:
            return str(error)
        except OSError:
            return "error"

    jobs = {name: gevent.spawn(one, name) for name in seconds}
    gevent.joinall(list(jobs.values()))
    return {name: job.value for name, job in jobs.items()}


def test_a_silent_node() -> None:
    """The others are not held up by it, and the error names the next step."""
    began = time.monotonic()
    found = asked({"a": 0, "b": 0.1, "c": 30})
    assert (found["a"], found["b"]) == ("answered", "answered")
    assert found["c"].startswith("it sent nothing for 0.3 s while the others answered")
    assert "--limit c" in found["c"]
    assert time.monotonic() - began < 2


def test_a_login_shell_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a single node, for which there is no other to compare with."""
    monkeypatch.setattr(waiting, "HUNG_SECONDS", 0.3)
    assert "its login shell hangs; next: look at ~/.bashrc" in asked({"a": 5})["a"]
    assert asked({"a": 0.8}, speaks="a") == {"a": "answered"}


def test_a_node_that_speaks() -> None:
    """It has more time, and not all of it."""
    assert asked({"a": 0, "b": 0.9}, speaks="b") == {"a": "answered", "b": "answered"}
    assert "has not answered" in asked({"a": 0, "b": 30}, speaks="b")["b"]
    assert asked({"a": 0, "b": 2}, speaks="b", last=5)["b"] == "answered"


@pytest.mark.parametrize(
    "seconds", [{"a": 0.9}, {"a": 0.9, "b": 0.9, "c": 0.9}, {"a": 0.9, "b": 0.9, "c": 0}]
)
def test_nodes_that_take_their_time(seconds: dict[str, float]) -> None:
    """One alone, and some that are alike; a third that fails at once is no measure."""
    errors = [name for name, each in seconds.items() if not each]
    assert set(asked(seconds, *errors).values()) <= {"answered", "error"}


def test_a_node_that_begins_late() -> None:
    """Where only so many are asked at once, its time begins when it is asked."""
    watching = Patience(2)
    with watching.asking(host("a")):
        pass
    gevent.sleep(0.5)
    with watching.asking(host("b")):
        gevent.sleep(0.1)


def test_a_probe_that_is_at_work(shell: str) -> None:
    """It is not silent, and what it says by that is no part of its answer."""
    section = Section("one", "sleep 2; echo here")
    script = render([section]).replace("sleep 10", "sleep 0.5", 1)
    assert "sleep 0.5" in script
    done = run(shell, script)
    assert read(as_lines(done.stdout), [section]).sections["one"].require() == "here"
    assert 2 <= done.stderr.count(b"\n") <= 4
    assert done.stderr.strip() == b""
    assert done.returncode == 0
