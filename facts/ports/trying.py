"""Trying ports: a program on each node listens on three, and connects to those of the others.

It runs in a second command over the session of the probe, and ends with it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gevent
from pyinfra.api import Host

from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ports.state import Outcome, Tried
from gpu_node.facts.probe.bounds import in_words, short
from gpu_node.facts.probe.peers import partners
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.training_user import as_training_user

PROGRAM = (Path(__file__).parent / "on_node" / "ports.py").read_text(encoding="utf-8")
# How long the listeners may take to be ready, the connections to end, and a node to confirm that it
# still listens; then it is given up. The program itself ends after LIFE_SECONDS.
READY_SECONDS, TRY_SECONDS, CONFIRM_SECONDS, LIFE_SECONDS = 3, 12, 2, 20
# More than a node that is asked about all others sends.
_MOST_BYTES = 32 * 1024
_READY = re.compile(r"ready (\d{1,5}) (\d{1,5}) (\d{4,5}) (\d{4,5}) (\d{4,5})", re.ASCII)
_TRY = re.compile(r"try (\d{1,3}) ([0-2]) (open|late|code|E[A-Z0-9]{1,20})", re.ASCII)
_CARRY = re.compile(r"carry (\d{1,3}) (passed|stalled|unknown)", re.ASCII)
_FAILED: Mapping[str, Outcome] = {
    "late": "dropped",
    "EHOSTUNREACH": "rejected",
    "ECONNREFUSED": "reset",
}


@dataclass(frozen=True)
class End:
    """A node that takes part: the address at which it listens, and from which it connects."""

    host: Host
    request: ProbeRequest
    address: str


@dataclass(frozen=True)
class Result:
    """What a node tried, by the other node; `untried`: why it took no part.

    `first` and `last` are the ports from which its kernel chooses.
    """

    tried: dict[str, Tried] = field(default_factory=dict)
    untried: str = ""
    first: int = 0
    last: int = 0


class _Program:
    """The session with a node's program: a `Talk`. What it prints is bounded and checked."""

    def __init__(self, end: End) -> None:
        self.end, self.why = end, ""
        self.range, self.ports = (0, 0), tuple[int, ...]()
        self.peers: tuple[str, ...] = ()
        self.ends: dict[tuple[int, int], str] = {}
        self.carried: dict[int, str] = {}
        self.is_tried = self.listens = False
        self._to_send: list[str] | None = []
        self._size, self._begun, self._last = 0, b"", ""
        self.running = gevent.spawn(self._run)

    def _run(self) -> None:
        end, connector = self.end, self.end.host.connector
        given = getattr(connector, "by_sudo", None)
        if given is None:
            self.why = "it is not reached by SSH"
            return
        try:
            is_apart = end.request.sudo and end.request.trains_apart
            rights = {"_sudo": True} if is_apart and given() else {}
            script = assigned(program=PROGRAM, address=end.address) + shell("ports/start")
            script = as_training_user(end.request.user, script)
            execute(connector, script, LIFE_SECONDS, rights, self)
            self.why = f"its program ended: {self._last or 'no output'}"
        except NoAnswer as error:
            self.why = str(error)
        except Exception as error:  # of any class: the node's answer caused it
            self.why = in_words(error)

    def send(self, *lines: str) -> None:
        """Send lines."""
        if self._to_send is not None:
            self._to_send += lines

    def close(self) -> None:
        """Have it end."""
        self._to_send = None

    def more(self) -> bytes | None:
        """Return what is to be sent."""
        if self._to_send is None:
            return None
        sent, self._to_send = self._to_send, []
        return "".join(f"{line}\n" for line in sent).encode()

    def hear(self, stream: str, data: bytes) -> None:
        """Take whole lines of what it prints; raises OverflowError, which ends it."""
        self._size += len(data)
        if self._size > _MOST_BYTES:
            raise OverflowError("it sends more than an answer")
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def _take(self, line: str) -> None:
        if (match := _READY.fullmatch(line)) and not self.ports:
            first, last, *ports = map(int, match.groups())
            if 1024 <= first <= min(ports) <= max(ports) <= last < 1 << 16:
                self.range, self.ports = (first, last), tuple(ports)
        elif match := _TRY.fullmatch(line):
            self.ends.setdefault((int(match[1]), int(match[2])), match[3])
        elif match := _CARRY.fullmatch(line):
            self.carried.setdefault(int(match[1]), match[2])
        elif line == "tried":
            self.is_tried = True
        elif line == "listens":
            self.listens = True
        elif line.strip():
            self._last = short(line.strip())

    def tried(self, at: int, peer: _Program) -> Tried:
        """Return how its connections to a peer ended; a failure counts if the peer listens on."""
        ends = [self.ends.get((at, port), "no answer") for port in range(3)]
        outcomes = [_outcome(each, peer) for each in ends]
        odd = [each for each, how in zip(ends, outcomes, strict=True) if how == "unknown"]
        passed = {"passed": True, "stalled": False}.get(self.carried.get(at, ""))
        return Tried(
            ports=(outcomes[0], outcomes[1], outcomes[2]),
            large=passed if outcomes[0] == "open" and (passed or peer.listens) else None,
            why=(odd[0] if odd[0] not in _FAILED else peer.why or _SILENT) if odd else "",
        )


_SILENT = "it does not confirm that it listens"


def _outcome(end: str, peer: _Program) -> Outcome:
    if end == "open":
        return "open"
    return _FAILED.get(end, "unknown") if peer.listens else "unknown"


def try_ports(ends: Mapping[str, End]) -> dict[str, Result]:
    """Have some nodes try each other's ports: all of few, of many each the next, 2nd, 4th, ..."""
    programs = {name: _Program(end) for name, end in ends.items()}
    try:
        _wait(programs.values(), READY_SECONDS, lambda each: bool(each.ports))
        ready = {name: each for name, each in programs.items() if each.ports and not each.why}
        names = [*ready]
        for place, each in enumerate(ready.values()):
            each.peers = tuple(names[other] for other in partners(len(names), place))
            others = [ready[name] for name in each.peers]
            each.send(*map(_line, others), "go")
        _wait(ready.values(), TRY_SECONDS, lambda each: each.is_tried)
        failed = [*_failed(ready.values(), ready)]
        for each in failed:
            each.send("listens?")
        _wait(failed, CONFIRM_SECONDS, lambda each: each.listens)
        return {name: _result(each, ready) for name, each in programs.items()}
    finally:
        for each in programs.values():
            each.close()


def _line(program: _Program) -> str:
    return " ".join([program.end.address, *map(str, program.ports)])


def _failed(programs: Iterable[_Program], ready: Mapping[str, _Program]) -> Iterable[_Program]:
    """Yield the nodes to which something failed, once each."""
    names = {
        name
        for each in programs
        for at, name in enumerate(each.peers)
        if any(each.ends.get((at, port)) in _FAILED for port in range(3))
        or each.carried.get(at) == "stalled"
    }
    return (ready[name] for name in names)


def _result(program: _Program, ready: Mapping[str, _Program]) -> Result:
    if not program.is_tried:
        seconds = READY_SECONDS if not program.ports else TRY_SECONDS
        return Result(untried=program.why or f"its program does not answer within {seconds} s")
    tried = {name: program.tried(at, ready[name]) for at, name in enumerate(program.peers)}
    return Result(tried, "", *program.range)


def _wait(
    programs: Collection[_Program], seconds: float, is_done: Callable[[_Program], bool]
) -> None:
    """Wait until it is so of those that have not ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(each.why or is_done(each) for each in programs):
        gevent.sleep(0.01)
