"""Runs a verification: checks each node, runs the job, removes everything again."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TypeVar

import gevent
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError

from gpu_node.facts.ask.gather import chosen
from gpu_node.facts.ask.session import close
from gpu_node.facts.probe.bounds import in_words
from gpu_node.inventories.connection.connector import Connector
from gpu_node.inventories.interrupt import LINE, Interrupted, handled, stop
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import NO_GPU
from gpu_node.verify import causes, sessions
from gpu_node.verify.isolate import Named
from gpu_node.verify.outcome import Outcome
from gpu_node.verify.output import Look
from gpu_node.verify.plan import TORCHRUN, Placement, Start, kind_of, script
from gpu_node.verify.ranks import bandwidth, ranks_of, rows
from gpu_node.verify.request import GLOO, LEAST_SECONDS, NCCL, Request
from gpu_node.verify.sessions import Node, Refused
from gpu_node.verify.tries import Tries

_AGAIN = f"{LINE} again: processes on the nodes end by their own time limit"
# Beyond the job's own time, for what the launching node does before and after it.
_MARGIN_SECONDS = 25

T = TypeVar("T", Host, Node)
R = TypeVar("R")
NOTHING = Request()


def verify(
    inventory: str,
    limits: Iterable[str] = (),
    request: Request = NOTHING,
    progress: Callable[[str], None] = lambda stage: None,
) -> Outcome:
    """Run an all-reduce across the nodes of an inventory file that `limits` leave.

    The first of them launches it. `progress` is called with a short text at each stage. In every
    case all its processes and files are removed from the nodes. Raises PyinfraError if the
    inventory cannot be used, Interrupted after Ctrl-C, when everything is removed.
    """
    with chosen(inventory, limits) as (state, hosts), stopped_by_signals():
        run = _Run(state, request, progress)
        try:
            return run.verified(hosts)
        except KeyboardInterrupt:
            raise Interrupted(run.cleared()) from None
        finally:
            run.cleared()
            for host in hosts:
                close(host.connector)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt here on Ctrl-C; the second one ends the process at once.

    Not where the signal comes: one of paramiko's threads would swallow it.
    """
    here, signals = gevent.getcurrent(), list[int]()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if signals:
            stop(_AGAIN)
        signals.append(number)
        gevent.kill(here, KeyboardInterrupt)

    with handled(interrupted):
        yield


class _Run:
    """One verification; `prepared` are the nodes that have files or processes of it."""

    def __init__(self, state: State, request: Request, progress: Callable[[str], None]) -> None:
        self.state, self.request, self.progress = state, request, progress
        self.name = secrets.token_hex(8)
        self.prepared: list[Node] = []
        self.tries: Tries | None = None
        # What is wrong with nodes before any is tried.
        self.named: list[Named] = []

    def verified(self, hosts: Sequence[Host]) -> Outcome:
        """Verify the nodes that can take part, and name the others."""
        outcome = self.judged(hosts)
        return replace(
            outcome,
            ok=outcome.ok and not self.named,
            problems=(*map(_in_line, self.named), *outcome.problems),
            named=(*self.named, *outcome.named),
        )

    def judged(self, hosts: Sequence[Host]) -> Outcome:
        hosts = [host for host in hosts if host.data.dict().get("gpu_model") != NO_GPU]
        if not hosts:
            return Outcome(False, problems=("found no node for jobs: all have gpu: none",))
        names = [host.name for host in hosts]
        try:
            self.progress(f"Connecting to {', '.join(names)}")
            found = self.each(hosts, lambda host: self.opened(host))
            if not self.request.allow_disruption:
                found = self.each([*found.values()], sessions.require_idle)
            self.progress("Checking torch in the Python of each node")
            looks = self.each([*found.values()], lambda node: self.look(node, names))
            nodes = [found[name] for name in looks]
            start = self.start(nodes, looks)
            if all(isinstance(node.host.connector, Connector) for node in nodes):
                return self.isolated(start, nodes, looks)
            _require(causes.wrong_names(nodes[0].name, looks))
            return self.reduced(start, nodes)
        except _Wrong as error:
            return Outcome(False, problems=(*error.args, *self.cleared()))

    def isolated(self, start: Start, nodes: Sequence[Node], looks: dict[str, Look]) -> Outcome:
        """Try the nodes alone and together, and run the job where they work."""
        self.progress("Importing torch on each node")
        ports = {name: look.port for name, look in looks.items()}
        tries = self.tries = Tries(start, ports, nodes, not self.request.allow_disruption)
        tries.open()
        left = tries.isolate(self.progress)
        found = tries.found
        problems = [*map(_in_line, found.named())]
        problems += causes.wrong_names(nodes[0].name, looks)
        works = found.ends.get(found.nodes) == ""
        if found.next() and not works:
            why = f"found --timeout {start.seconds} (over before all was tried)"
            problems.append(f"{why}; next: a larger --timeout")
        if works and not any(causes.wrong_names(nodes[0].name, looks)):
            start = replace(start, seconds=max(LEAST_SECONDS, int(left)))
            outcome = self.reduced(start, nodes)
        else:
            outcome = _tried(start, tries)
        odd = {name for each in self.named for name in each.members if each.members != found.nodes}
        slots = {
            each.peer.name: each.ranks for each in start.placements if each.peer.name not in odd
        }
        return replace(
            outcome,
            ok=outcome.ok and not problems,
            problems=(*problems, *outcome.problems, *self.cleared()),
            named=tuple(found.named()),
            working={name: slots[name] for name in found.working() if name in slots},
            tries=tuple(each for repeated in found.tries.values() for each in repeated),
        )

    def each(self, things: Sequence[T], work: Callable[[T], R]) -> dict[str, R]:
        """Do `work` for each of them in parallel; those that are refused are named instead."""

        def one(thing: T) -> R | Refused:
            try:
                return work(thing)
            except Refused as error:
                return error
            except PyinfraError:  # the inventory is wrong
                raise
            except Exception as error:  # a wrong answer of one node does not stop the others
                return Refused(f"{thing.name}: not understood: {in_words(error)}")

        done = dict(
            zip((thing.name for thing in things), self.state.pool.map(one, things), strict=True)
        )
        self.named += [
            Named((name,), str(each).removeprefix(f"{name}: "))
            for name, each in done.items()
            if isinstance(each, Refused)
        ]
        return {name: each for name, each in done.items() if not isinstance(each, Refused)}

    def opened(self, host: Host) -> Node:
        return sessions.open_node(self.state, host)

    def look(self, node: Node, names: list[str]) -> Look:
        self.prepared.append(node)
        found = sessions.look(node, self.name, self.request.python or node.python(), names)
        wrong = causes.wrong_python(node.name, found)
        if not wrong and self.request.backend != GLOO:
            count = node.wanted.gpu.count if node.wanted.gpu is not None else None
            wrong = causes.wrong_gpus(node.name, found, count)
        if wrong:
            raise Refused(wrong)
        return found

    def start(self, nodes: Sequence[Node], looks: dict[str, Look]) -> Start:
        """Return what to start; raises _Wrong if it cannot succeed."""
        if not nodes:
            raise _Wrong
        self.named += causes.different(looks)
        first, found = nodes[0], list(looks.values())
        launcher = first.wanted.launcher
        backend = self.request.backend or (NCCL if all(look.gpus for look in found) else GLOO)
        start = Start(
            run=self.name,
            kind=(launcher.kind if launcher is not None else None) or TORCHRUN,
            placements=tuple(_placement(node, looks[node.name]) for node in nodes),
            port=found[0].port,
            backend=backend,
            size=self.request.size,
            seconds=self.request.seconds,
            is_root=found[0].root,
        )
        _require(causes.wrong_launcher(kind_of(start), looks))
        if backend == NCCL:
            _require(f"{name}: torch sees no GPU" for name, look in looks.items() if not look.gpus)
        return start

    def reduced(self, start: Start, nodes: Sequence[Node]) -> Outcome:
        """Run the job, clean up, and judge what the ranks report."""
        self.progress(f"{_how(start)}: all-reduce, at most {start.seconds} s")
        broken = sessions.launch(nodes[0], script(start), start.seconds + _MARGIN_SECONDS)
        found = self.state.pool.map(lambda node: sessions.rank_output(node, self.name), nodes)
        outputs = {node.name: each for node, each in zip(nodes, found, strict=True)}
        ranks = ranks_of(outputs)
        stopped = list(causes.stopped(start, ranks, outputs))
        problems = [
            *([broken] if broken else []),
            *causes.contradictions(start, outputs),
            *self.cleared(),
            *stopped,
        ]
        notes = ["gloo over CPU: GPUs were not used"] if start.backend == GLOO else []
        if stopped:
            notes += causes.known(outputs)
        found_rows = rows([*outputs], ranks, start.port)
        if len(nodes) > 1:
            notes += causes.beside(found_rows, {node.name: node.peer.address for node in nodes})
        return Outcome(
            ok=not problems,
            rows=found_rows,
            how=_how(start),
            size=start.size,
            bandwidth=bandwidth(ranks),
            problems=tuple(problems),
            notes=tuple(notes),
        )

    def cleared(self) -> tuple[str, ...]:
        """End the run on every prepared node; return a message for each thing that is left."""
        if not self.prepared:
            return ()
        self.progress("Cleaning up")
        if self.tries is not None:
            self.tries.close()
        left = tuple(
            each for some in self.state.pool.map(self.ended, self.prepared) for each in some
        )
        # Only now: after an interrupt the caller cleans up again.
        self.prepared = []
        return left

    def ended(self, node: Node) -> tuple[str, ...]:
        try:
            return sessions.end(node, self.name)
        except Refused as error:
            return (str(error),)
        except Exception as error:  # of any class: the other nodes are cleaned up
            return (f"{node.name}: cannot clean up: {in_words(error)}",)


class _Wrong(Exception):
    """A job cannot be started; `args` are the reasons."""


def _require(problems: Iterable[str]) -> None:
    if found := list(problems):
        raise _Wrong(*found)


def _in_line(named: Named) -> str:
    return f"{', '.join(named.members)}: {named.why}"


def _placement(node: Node, look: Look) -> Placement:
    """Return a node's placement: a rank for each GPU that torch sees, or one."""
    return Placement(node.peer, look.python, look.torch or "", look.gpus or 1)


def _how(start: Start) -> str:
    ranks, nodes = counted(start.ranks, "rank"), counted(len(start.placements), "node")
    return f"{kind_of(start)}, {ranks} on {nodes}, {start.backend}"


def _tried(start: Start, tries: Tries) -> Outcome:
    """Return the outcome of tries that failed, with the cause in the output of the smallest."""
    names = tries.found.nodes
    outputs = {name: each for some in tries.outputs.values() for name, each in some.items()}
    outputs |= tries.outputs.get(names, {})
    failed = (each for each in tries.outputs if tries.found.ends[each])
    logs = tries.outputs.get(min(failed, key=len, default=()), {})
    return Outcome(
        False,
        rows=rows(names, ranks_of(outputs), 0),
        how=_how(start),
        size=start.size,
        notes=tuple(causes.known(logs)),
    )
