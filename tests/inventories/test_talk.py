"""A stdin that is written while its command runs."""

from __future__ import annotations

from paramiko import Channel

from gpu_node.facts.ask.execute import execute
from gpu_node.facts.ask.gather import chosen, connect
from gpu_node.facts.ask.session import close
from tests.hostile_nodes import reply
from tests.inventories.conftest import ask
from tests.onboarding.serving import Sshd


class Asking:
    """Sends a second line when the first has come back, and then ends its stdin."""

    def __init__(self) -> None:
        self.sent, self.heard = 0, b""

    def more(self) -> bytes | None:
        lines = self.heard.count(b"\n")
        if lines < self.sent:
            return b""
        self.sent += 1
        return None if self.sent > 2 else b"line %d\n" % self.sent

    def hear(self, stream: str, data: bytes) -> None:
        assert stream == "stdout"
        self.heard += data


def echo(channel: Channel, command: bytes) -> None:
    """Send each line back as it comes."""
    with channel.makefile("rb") as sent:
        for line in sent:
            channel.sendall(line)
    reply(channel, b"end\n", 0)


def test_a_talk(sshd: Sshd) -> None:
    """What a command prints decides what it is sent; the answer has all of it."""
    ask(sshd)  # writes the inventory
    sshd.answer = echo
    with chosen(str(sshd.home.parent / "nodes.py")) as (state, [host]):
        connect(state, host)
        talk = Asking()
        done, output = execute(host.connector, "cat", 20, stdin=talk)
        close(host.connector)
    assert (done, output.stdout_lines) == (True, ["line 1", "line 2", "end"])
    assert talk.heard == b"line 1\nline 2\nend\n"
