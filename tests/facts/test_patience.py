"""A node that says nothing is given up when the others have answered; alone it has its time."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest
from pyinfra.api import Host

from gpu_node.facts.ask import patience
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.probe.protocol import Section, read, render
from tests.clock import Clock
from tests.shells import as_lines, run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of those who wait for nodes."""
    made = Clock()
    made.replace_in(patience, monkeypatch)
    return made


def host(name: str, clock: Clock, speaks: bool = False) -> Host:
    """A node; one that speaks has brought something just now, whenever that is asked."""

    class Packetizer:
        @property
        def heard(self) -> float:
            return clock.monotonic()

    transport = SimpleNamespace(packetizer=Packetizer() if speaks else None)
    client = SimpleNamespace(get_transport=lambda: transport)
    made = SimpleNamespace(name=name, connector=SimpleNamespace(client=client))
    return cast(Host, made)


def asked(
    clock: Clock,
    seconds: dict[str, float],
    *errors: str,
    speaks: str = "",
    last: float | None = None,
) -> dict[str, str]:
    """Ask nodes that take so long, some of which end in an error."""
    watching = Patience(len(seconds), last)

    def one(name: str) -> str:
        try:
            with watching.asking(host(name, clock, name == speaks)):
                clock.sleep(seconds[name])
                if name in errors:
                    raise OSError
                return "answered"
        except GivenUp as error:
            return str(error)
        except OSError:
            return "error"

    return dict(zip(seconds, clock.run(*(partial(one, name) for name in seconds)), strict=True))


def test_a_silent_node(clock: Clock) -> None:
    """The others are not held up by it, and the error names the next step."""
    found = asked(clock, {"a": 0, "b": 10, "c": 3000})
    assert (found["a"], found["b"]) == ("answered", "answered")
    assert found["c"].startswith("it sent nothing for 30 s while the others answered")
    assert "--limit c" in found["c"]
    assert 30 <= clock.monotonic() <= 31


def test_a_login_shell_that_hangs(clock: Clock) -> None:
    """Also of a single node, for which there is no other to compare with."""
    assert "its login shell hangs; next: look at ~/.bashrc" in asked(clock, {"a": 91})["a"]
    assert asked(clock, {"a": 91}, speaks="a") == {"a": "answered"}


def test_a_node_that_speaks(clock: Clock) -> None:
    """It has more time, and not all of it."""
    assert asked(clock, {"a": 0, "b": 179}, speaks="b") == {"a": "answered", "b": "answered"}
    assert "has not answered" in asked(clock, {"a": 0, "b": 181}, speaks="b")["b"]
    assert asked(clock, {"a": 0, "b": 181}, speaks="b", last=200)["b"] == "answered"


@pytest.mark.parametrize(
    "seconds", [{"a": 85}, {"a": 85, "b": 85, "c": 85}, {"a": 85, "b": 85, "c": 0}]
)
def test_nodes_that_take_their_time(clock: Clock, seconds: dict[str, float]) -> None:
    """One alone, and some that are alike; a third that fails at once is no measure."""
    errors = [name for name, each in seconds.items() if not each]
    assert set(asked(clock, seconds, *errors).values()) <= {"answered", "error"}


def test_a_node_that_begins_late(clock: Clock) -> None:
    """Where only so many are asked at once, its time begins when it is asked."""
    watching = Patience(2)

    def one_after_the_other() -> None:
        with watching.asking(host("a", clock)):
            pass
        clock.sleep(50)
        with watching.asking(host("b", clock)):
            clock.sleep(29)

    clock.run(one_after_the_other)


def test_a_probe_that_is_at_work(shell: str) -> None:
    """It is not silent, and what it says by that is no part of its answer."""
    section = Section("one", "sleep 2; echo here")
    script = render([section]).replace("sleep 10", "sleep 0.5", 1)
    assert "sleep 0.5" in script
    done = run(shell, script)
    assert read(as_lines(done.stdout), [section]).sections["one"].require() == "here"
    assert 2 <= done.stderr.count(b"\n") <= 20
    assert done.stderr.strip() == b""
    assert done.returncode == 0
