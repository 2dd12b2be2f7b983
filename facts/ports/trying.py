"""Trying ports: a program on each node listens on three, and connects to those of the others.

It runs in a second command over the session of the probe, and ends with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
from pyinfra.api import Host
from typing_extensions import override

from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.line_talk import LineTalk, wait
from gpu_node.facts.ports.state import Outcome, Tried
from gpu_node.facts.probe.bounds import in_words, short
from gpu_node.facts.probe.peers import partners
from gpu_node.facts.probe.request import request_of
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.training_user import as_training_user

PROGRAM = (Path(__file__).parent / "on_node" / "ports.py").read_text(encoding="utf-8")
# How long the listeners may take to be ready, the connections to end, and a node to confirm that it
# listens on; the program itself ends after LIFE_SECONDS.
READY_SECONDS, TRY_SECONDS, CONFIRM_SECONDS, LIFE_SECONDS = 3, 12, 2, 20
# More than a node that is asked about all others sends.
_MOST_BYTES = 32 * 1024
_READY = re.compile(r"ready (\d{4,5}) (\d{4,5}) (\d{4,5}) (\d{4,5}) (\d{4,5})\Z", re.ASCII)
_ENDED = re.compile(r"(?:try|carry) (\d{1,3}(?: [0-2])?) ([A-Za-z0-9]{1,20})", re.ASCII)
_FAILED: Mapping[str, Outcome] = {
    "open": "open",
    "late": "dropped",
    "EHOSTUNREACH": "rejected",
    "ENETUNREACH": "unreachable",
    "EACCES": "prohibited",
    "ECONNREFUSED": "reset",
}


class _Program(LineTalk):
    """The session with a node's program; what it prints is bounded and checked."""

    def __init__(self, host: Host, address: str) -> None:
        super().__init__()
        # Where it listens, and from where it connects.
        self.address = address
        self.range, self.ports = (0, 0), tuple[int, ...]()
        self.peers: tuple[str, ...] = ()
        # By what was sent: the peer, and the port where it is about one.
        self.results: dict[str, str] = {}
        self.is_tried = self.listens = False
        self._size = 0
        gevent.spawn(self._run, host)

    def _run(self, host: Host) -> None:
        """Run the program to its end, and keep why it ended."""
        request, connector = request_of(host.data.dict()), host.connector
        try:
            if not hasattr(connector, "by_sudo"):
                raise NoAnswer("it is not reached by SSH")
            asks = request.sudo and request.trains_apart and connector.by_sudo()
            script = assigned(program=PROGRAM, address=self.address) + shell("ports/start")
            script = as_training_user(request.user, script)
            execute(connector, script, LIFE_SECONDS, {"_sudo": bool(asks)}, self)
            self.ended = f"its program ended: {self.last}"
        except NoAnswer as error:
            self.ended = str(error)
        except Exception as error:  # of any class: the node's answer caused it
            self.ended = in_words(error)

    def try_peers(self, peers: Mapping[str, _Program]) -> None:
        """Have it connect to others."""
        lines = [" ".join([each.address, *map(str, each.ports)]) for each in peers.values()]
        self.peers = tuple(peers)
        self.send("\n".join([*lines, "go", ""]).encode())

    @override
    def hear(self, stream: str, data: bytes) -> None:
        """Raises OverflowError, which ends it."""
        self._size += len(data)
        if self._size > _MOST_BYTES:
            raise OverflowError("it sends more than an answer")
        super().hear(stream, data)

    @override
    def take(self, line: str) -> None:
        # A start file may have printed something before it that has no end of line.
        if not self.ports and (match := _READY.search(line)):
            first, last, *ports = map(int, match.groups())
            if 1024 <= first <= min(ports) <= max(ports) <= last < 1 << 16:
                self.range, self.ports = (first, last), tuple(ports)
        elif match := _ENDED.fullmatch(line):
            self.results.setdefault(match[1], match[2])
        elif line in ("tried", "listens"):
            self.is_tried, self.listens = True, line == "listens"
        else:
            self.last = short(line) or self.last

    @property
    def has_failed(self) -> bool:
        """Whether a connection failed, or a large message did not pass."""
        return not {"open", "passed"}.issuperset(self.results.values())

    def tried(self, at: int, peer: _Program) -> Tried:
        """Return how its connections to a peer ended: a failure counts if the peer listens on."""
        ends = [self.results.get(f"{at} {port}", "no answer") for port in range(3)]
        known = _FAILED if peer.listens else {"open": _FAILED["open"]}
        low, middle, high = (known.get(end, "unknown") for end in ends)
        odd = next((end for end in ends if end not in known), "")
        passed = self.results.get(str(at))
        return Tried(
            ports=(low, middle, high),
            large={"passed": True, "stalled": False if peer.listens else None}.get(passed or ""),
            why="it does not confirm that it listens" if odd in _FAILED else odd,
        )


def with_ports(
    answers: Mapping[Host, Answer], found: Mapping[str, Mapping[str, Any]]
) -> dict[Host, Answer]:
    """Return answers with what their nodes tried together: those that have an `address` in `found`.

    `found` has fields of the states of their ports, by the names of all nodes.
    """
    ends = {host: each["address"] for host in answers if "address" in (each := found[host.name])}
    results = try_ports(ends) if len(ends) > 1 else {}
    made = dict(answers)
    for host, answer in answers.items():
        fields = {**found[host.name], **results.get(host.name, {})}
        if fields and answer.state is not None:
            blank = {"tried": None, "untried": ""}
            ports = answer.state.ports.model_copy(update={**blank, **fields})
            state = answer.state.model_copy(update={"ports": ports})
            made[host] = replace(answer, state=state)
    return made


def try_ports(ends: Mapping[Host, str]) -> dict[str, dict[str, Any]]:
    """Have nodes try each other's ports, at their addresses; return the fields of their states.

    All of few try each other, of many each tries the next, the 2nd, the 4th, ...
    """
    programs = {host.name: _Program(host, address) for host, address in ends.items()}
    try:
        wait(programs.values(), READY_SECONDS, lambda each: bool(each.ports))
        ready = {name: each for name, each in programs.items() if each.ports and not each.ended}
        names = [*ready]
        for place, each in enumerate(ready.values()):
            others = [names[other] for other in partners(len(names), place)]
            each.try_peers({name: ready[name] for name in others})
        wait(ready.values(), TRY_SECONDS, lambda each: each.is_tried)
    finally:
        for each in programs.values():
            each.close()
    if any(each.has_failed for each in ready.values()):
        wait(ready.values(), CONFIRM_SECONDS, lambda each: each.listens)
    return {name: _found(each, ready) for name, each in programs.items()}


def _found(program: _Program, ready: Mapping[str, _Program]) -> dict[str, Any]:
    if not program.is_tried:
        seconds = TRY_SECONDS if program.ports else READY_SECONDS
        return {"untried": program.ended or f"its program does not answer within {seconds} s"}
    tried = {name: program.tried(at, ready[name]) for at, name in enumerate(program.peers)}
    return {"tried": tried, "first": program.range[0], "last": program.range[1]}
