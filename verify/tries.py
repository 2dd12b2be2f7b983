"""Tries: a parent on each node forks the ranks of each, and prints what they report."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import gevent
from typing_extensions import override

from gpu_node.facts.ask.line_talk import LineTalk, wait
from gpu_node.facts.probe.bounds import in_words, read_json
from gpu_node.inventories.plurals import few
from gpu_node.verify import causes, nodes, sessions
from gpu_node.verify.isolate import Found, Members, Tried, Worked
from gpu_node.verify.nodes import MARK, RankOutput
from gpu_node.verify.plan import Start
from gpu_node.verify.ranks import bandwidth, link, ranks_of
from gpu_node.verify.sessions import Node

# How often a line is sent to a parent, which ends without one.
_BEAT_SECONDS = 10
# The least that a try may take, how often longer than a node alone, and what an answer may be late.
_LEAST_SECONDS, _TIMES, _LATE_SECONDS = 15, 4, 5
# A larger tensor shows nothing more, and a slow link would take too long for it.
_MOST_SIZE = 16 << 20
# How many of the sets of a round are shown.
_SHOWN = 4


class Parent(LineTalk):
    """The session with a node's parent, which ends without a line now and then."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.answers: dict[int, RankOutput] = {}
        self.is_ready, self._sent = False, time.monotonic()

    def begin(self, script: str, seconds: int) -> None:
        """Begin its script, which runs until it is closed."""
        gevent.spawn(self._run, script, seconds)

    def _run(self, script: str, seconds: int) -> None:
        broken = sessions.launch(self.node, script, seconds, self)
        self.ended = broken or f"{self.node.name}: its Python ended: {self.last}"

    @override
    def more(self) -> bytes | None:
        if time.monotonic() >= self._sent + _BEAT_SECONDS:
            self.send(b"\n")
        if sent := super().more():
            self._sent = time.monotonic()
        return sent

    @override
    def take(self, line: str) -> None:
        if not line.startswith(MARK):
            self.last = line[:300] or self.last
            return
        try:
            answer = read_json(line.removeprefix(MARK))
            self.is_ready = self.is_ready or answer.get("ready") is True
            if "id" in answer:
                self.answers[int(answer["id"])] = nodes.parse_rank_output(str(answer["output"]))
        except Exception as error:  # of any class: the node's answer caused it
            self.last = f"invalid answer: {in_words(error)}"


class Tries:
    """The tries of a run so far: what they show, and what the ranks of each set printed last.

    `start` is the run whose ranks are forked; `ports` are free on the nodes. `is_idle`: no job uses
    their GPUs, so that the speed of each counts.
    """

    def __init__(
        self, start: Start, ports: Mapping[str, int], nodes: Sequence[Node], is_idle: bool
    ) -> None:
        self.start, self.ports, self.is_idle = start, ports, is_idle
        self.found = Found([node.name for node in nodes], [])
        self.outputs: dict[Members, dict[str, RankOutput]] = {}
        self._parents = {node.name: Parent(node) for node in nodes}
        self._numbers = count()

    def open(self) -> None:
        """Start the parents, and wait until each has imported torch or has ended."""
        seconds = nodes.LOOK_SECONDS + 2 * self.start.seconds
        for each in self.start.placements:
            script = nodes.tries(self.start.run, each.python, seconds)
            self._parents[each.peer.name].begin(script, seconds + _LATE_SECONDS)
        wait(self._parents.values(), nodes.LOOK_SECONDS, lambda parent: parent.is_ready)

    def close(self) -> None:
        """End the parents."""
        for each in self._parents.values():
            each.close()
        wait(self._parents.values(), _LATE_SECONDS, lambda parent: False)

    def isolate(self, progress: Callable[[str], None]) -> float:
        """Try until nothing is left to find or the time is over; return the seconds left."""
        end, most = time.monotonic() + self.start.seconds, float(self.start.seconds)
        done: list[Tried] = []
        while (left := end - time.monotonic()) >= 1 and (sets := self.found.next()):
            progress(f"Trying {', '.join(few(map('+'.join, sets), _SHOWN))}")
            began = time.monotonic()
            done += self._tried(sets, int(min(left, most)))
            if len(done) == len(sets):  # each node alone
                most = max(_LEAST_SECONDS, _TIMES * (time.monotonic() - began))
            self.found = Found(self.found.nodes, done)
        return end - time.monotonic()

    def _tried(self, sets: Sequence[Members], seconds: int) -> list[Tried]:
        """Try sets of nodes at the same time."""
        end = time.monotonic() + seconds + _LATE_SECONDS
        begun = [self._begun(members, seconds) for members in sets]
        return [self._ended(*each, end - time.monotonic()) for each in begun]

    def _begun(self, members: Members, seconds: int) -> tuple[Start, int]:
        """Begin a try; return it and its number."""
        of = tuple(each for each in self.start.placements if each.peer.name in members)
        size, port = min(self.start.size, _MOST_SIZE), self.ports[members[0]]
        start = replace(self.start, placements=of, port=port, size=size, seconds=seconds)
        number, first = next(self._numbers), 0
        for each in of:
            given: dict[str, object] = {"id": number, "first": first, "ranks": each.ranks}
            given |= {"world": start.ranks, "master": start.master, "port": port, "size": size}
            given |= {"backend": start.backend, "seconds": seconds}
            given["works"] = self.is_idle and len(of) == 1
            self._parents[each.peer.name].send(json.dumps(given).encode() + b"\n")
            first += each.ranks
        return start, number

    def _ended(self, start: Start, number: int, seconds: float) -> Tried:
        """Wait for the answers of a try, and judge it."""
        members = tuple(each.peer.name for each in start.placements)
        parents = {name: self._parents[name] for name in members}
        wait(parents.values(), seconds, lambda parent: number in parent.answers)
        silent = [
            each.ended or f"{name}: no answer within {start.seconds} s"
            for name, each in parents.items()
            if number not in each.answers
        ]
        outputs = {name: each.answers.get(number, RankOutput()) for name, each in parents.items()}
        self.outputs[members] = outputs
        return judged(start, outputs, silent)


def judged(start: Start, outputs: Mapping[str, RankOutput], silent: Sequence[str]) -> Tried:
    """Return how a try ended, from what the ranks of its nodes reported."""
    members = tuple(outputs)
    ranks = ranks_of(outputs)
    problems = [*silent, *causes.contradictions(start, outputs)]
    problems = problems or [*causes.absent(ranks), *causes.stopped(start, ranks, outputs)]
    if problems:
        return Tried(members, problems[0])
    done = [rank.stages["done"] for rank in ranks]
    links = [link(ranks, name, start.port) for name in members]
    return Tried(
        members,
        seconds=max(each["seconds"] for each in done),
        bandwidth=bandwidth(ranks),
        link=min((each for each in links if each), default=None) if all(links) else None,
        devices=", ".join(str(rank.reported("device")) for rank in ranks),
        worked=tuple(
            Worked(str(rank.reported("device")), rank.reported("product"), each["memory"])
            for rank, each in zip(ranks, done, strict=True)
            if rank.reported("product") and each.get("memory")
        ),
    )
