"""Who trains, where that is not the SSH user: asked by name, as the SSH user is asked."""

from __future__ import annotations

import getpass

from gpu_node.facts.limits.state import SECTIONS, parse_user, sections
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import ask


def test_a_user_is_asked_for_by_name(shell: str) -> None:
    """With the same answer as of the user who runs the probe."""
    *_, about = sections(ProbeRequest(user=getpass.getuser(), trains_apart=True))
    (own,) = (each for each in SECTIONS if each.name == "limits.user")
    readings = ask(shell, [own, about])
    found = readings.take("limits.trainer", parse_user)
    assert found is not None and found == readings.take("limits.user", parse_user)


def test_no_such_user(shell: str) -> None:
    *_, about = sections(ProbeRequest(user="no such; user", trains_apart=True))
    readings = ask(shell, [about])
    assert readings.take("limits.trainer", parse_user) is None
    assert "no such; user" in readings.unread[0].reason


def test_the_ssh_user_is_not_asked_for_twice() -> None:
    assert sections(ProbeRequest(user="root")) == SECTIONS
