"""A verification from its start to its end: look at each node, run the job, clear everything up."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyinfra.api import Host, State

from facts.gather import chosen
from facts.session import close
from verify import causes, sessions
from verify.nodes import Look
from verify.outcome import Outcome
from verify.plan import TORCHRUN, Seat, Start, kind_of, script
from verify.ranks import Rank, bandwidth, ranks_of, rows
from verify.sessions import Node, Refused
from verify.stopping import Interrupted, heeding, until
from verify.wish import GLOO, NCCL, Wish

NO_GPUS_USED = "gloo over CPU: GPUs were not used"
# Beyond the job's own time, for what the launching node does before and after it.
_MARGIN_SECONDS = 25

T = TypeVar("T")
R = TypeVar("R")


NOTHING = Wish()


def verify(
    inventory: str,
    limits: Iterable[str] = (),
    wish: Wish = NOTHING,
    tell: Callable[[str], None] = lambda stage: None,
) -> Outcome:
    """Run an all-reduce across the nodes of an inventory file that `limits` leave.

    The first of them launches it. `tell` is given a few words at each stage. Whatever happens, no
    process and no file of it stays on a node. Raises PyinfraError where the inventory cannot be
    used, Interrupted after Ctrl-C, with everything cleared up.
    """
    with chosen(inventory, limits) as (state, hosts), heeding() as stopped:
        run = _Run(state, inventory, wish, tell)
        try:
            return until(stopped, lambda: run.verified(hosts))
        except Interrupted:
            raise Interrupted(run.cleared()) from None
        finally:
            run.cleared()
            for host in hosts:
                close(host.connector)


class _Run:
    """One verification; `laid` are the nodes that have something of it."""

    def __init__(
        self, state: State, inventory: str, wish: Wish, tell: Callable[[str], None]
    ) -> None:
        self.state, self.inventory, self.wish, self.tell = state, inventory, wish, tell
        self.name = secrets.token_hex(8)
        self.laid: list[Node] = []

    def verified(self, hosts: Sequence[Host]) -> Outcome:
        names = [host.name for host in hosts]
        try:
            self.tell(f"Connecting to {', '.join(names)}")
            nodes = self.each(hosts, lambda host: self.opened(host))
            if not self.wish.allow_disruption:
                self.each(nodes, sessions.require_idle)
            self.tell("Asking the Python of each node about its torch")
            looks = dict(
                zip(names, self.each(nodes, lambda node: self.look(node, names)), strict=True)
            )
            start = self.start(nodes, looks)
        except _Wrong as error:
            return Outcome(False, problems=(*error.problems, *self.cleared()))
        return self.reduced(start, nodes, looks)

    def each(self, things: Sequence[T], work: Callable[[T], R]) -> list[R]:
        """Do something with all of them side by side; raises _Wrong with all that is refused."""

        def one(thing: T) -> R | Refused:
            try:
                return work(thing)
            except Refused as error:
                return error

        done = self.state.pool.map(one, things)
        _require(str(each) for each in done if isinstance(each, Refused))
        return [each for each in done if not isinstance(each, Refused)]

    def opened(self, host: Host) -> Node:
        return sessions.open_node(self.state, host, self.inventory)

    def look(self, node: Node, names: list[str]) -> Look:
        self.laid.append(node)
        found = sessions.look(node, self.name, self.wish.python or node.python(), names)
        wrong = causes.wrong_python(node.name, found)
        if not wrong and self.wish.backend != GLOO:
            count = node.wanted.gpu.count if node.wanted.gpu is not None else None
            wrong = causes.wrong_gpus(node.name, found, count)
        if wrong:
            raise Refused(wrong)
        return found

    def start(self, nodes: Sequence[Node], looks: dict[str, Look]) -> Start:
        """Return what is to be started; raises _Wrong where that could not end well."""
        first, found = nodes[0], list(looks.values())
        launcher = first.wanted.launcher
        backend = self.wish.backend or (NCCL if all(look.gpus for look in found) else GLOO)
        start = Start(
            run=self.name,
            kind=(launcher.kind if launcher is not None else None) or TORCHRUN,
            seats=tuple(_seat(node, looks[node.name]) for node in nodes),
            port=found[0].port,
            backend=backend,
            size=self.wish.size,
            seconds=self.wish.seconds,
            is_root=found[0].root,
        )
        _require(causes.wrong_names(first.name, looks))
        _require(causes.wrong_launcher(kind_of(start), looks))
        if backend == NCCL:
            _require(f"{name}: torch sees no GPU" for name, look in looks.items() if not look.gpus)
        return start

    def reduced(self, start: Start, nodes: Sequence[Node], looks: dict[str, Look]) -> Outcome:
        """Run the job, clear up, and judge what the ranks told."""
        self.tell(f"{_counted(start)}: all-reduce, at most {start.seconds} s")
        broken = sessions.launch(nodes[0], script(start), start.seconds + _MARGIN_SECONDS)
        said = self.state.pool.map(lambda node: sessions.told(node, self.name), nodes)
        told = {node.name: each for node, each in zip(nodes, said, strict=True)}
        ranks = ranks_of({name: each.ranks for name, each in told.items()})
        problems = [*causes.stopped(start, ranks, told), *self.cleared()]
        problems = [broken, *problems] if broken else problems
        if not problems and [rank.number for rank in ranks] != list(range(start.ranks)):
            problems = [f"{len(ranks)} of {start.ranks} ranks told what they found"]
        return _outcome(start, nodes, looks, ranks, problems)

    def cleared(self) -> tuple[str, ...]:
        """End the run on every node that has something of it; return what is left, in words."""
        if not self.laid:
            return ()
        self.tell("Clearing up")
        left = tuple(each for some in self.state.pool.map(self.ended, self.laid) for each in some)
        # Not before: whoever is interrupted meanwhile begins again.
        self.laid = []
        return left

    def ended(self, node: Node) -> tuple[str, ...]:
        try:
            return sessions.end(node, self.name)
        except Refused as error:
            return (str(error),)


class _Wrong(Exception):
    """What keeps a job from being started."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def _require(problems: Iterable[str]) -> None:
    if found := list(problems):
        raise _Wrong(found)


def _seat(node: Node, look: Look) -> Seat:
    """A node's part: a rank for each GPU that torch sees, or one."""
    return Seat(node.peer, look.python, look.torch or "", look.gpus or 1)


def _counted(start: Start) -> str:
    ranks, nodes = start.ranks, len(start.seats)
    return (
        f"{kind_of(start)}, {ranks} rank{'s'[: ranks != 1]} on {nodes} node{'s'[: nodes != 1]}, "
        f"{start.backend}"
    )


def _outcome(
    start: Start,
    nodes: Sequence[Node],
    looks: dict[str, Look],
    ranks: Sequence[Rank],
    problems: Sequence[str],
) -> Outcome:
    notes = [NO_GPUS_USED] if start.backend == GLOO else []
    found = rows([node.name for node in nodes], ranks, start.port)
    if len(nodes) > 1:
        notes += causes.beside(found, {node.name: node.peer.address for node in nodes})
    return Outcome(
        ok=not problems,
        rows=found,
        how=_counted(start),
        size=start.size,
        bandwidth=bandwidth(ranks),
        problems=tuple(problems),
        notes=(*notes, *causes.different(looks)),
    )
