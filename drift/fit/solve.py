"""The choices that fit every node at once, what rules the others out, and the shortest way."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal, NamedTuple, TypeVar

from gpu_node.drift.driver.target import Branch, branches, floor
from gpu_node.drift.driver.target import branch as branch_of
from gpu_node.drift.fit.choices import (
    Reason,
    Wheel,
    against_branch,
    against_cuda,
    against_module,
    against_wheel,
    measured,
    wheels,
)
from gpu_node.drift.fit.node import Node, node_of
from gpu_node.drift.report.seen import Seen
from gpu_node.inventories.versions import numbers

What = Literal["driver", "module", "cuda", "torch", "nccl"]
_ORDER: tuple[What, ...] = ("driver", "module", "cuda", "torch", "nccl")
Status = Literal["fits", "change", "unknown"]
_Choice = TypeVar("_Choice", Branch, Wheel)


class RuledOut(NamedTuple):
    """What one reason rules out: driver branches, CUDA versions, torches or NCCL versions.

    `nodes` have the reason; empty: it is one of all choices together. A kind of kernel module, open
    or proprietary, is ruled out on these nodes alone.
    """

    what: What
    values: tuple[str, ...]
    why: str
    nodes: tuple[str, ...]
    table: str


class Change(NamedTuple):
    """What has to change on a node: its driver, or the torch of an environment ("": of any)."""

    node: str
    what: Literal["driver", "torch"]
    found: str
    wanted: str
    environment: str = ""


class Set(NamedTuple):
    """What all nodes can have at once: a driver branch, and a torch with its CUDA and NCCL."""

    driver: Branch
    wheel: Wheel


@dataclass(frozen=True)
class Fit:
    """What fits all nodes that are known; without a `chosen` set nothing does."""

    nodes: tuple[Node, ...]
    drivers: tuple[Branch, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    chosen: Set | None = None
    changes: tuple[Change, ...] = ()

    @property
    def cudas(self) -> list[str]:
        """The CUDA versions of the torches that fit, the oldest first."""
        return sorted({each.cuda for each in self.wheels}, key=numbers)

    @property
    def nccls(self) -> list[str]:
        """The NCCL versions that the torches that fit pin, as far as known, the oldest first."""
        return sorted({each.nccl for each in self.wheels if each.nccl}, key=numbers)

    def status(self, node: Node) -> Status:
        """Return whether a node has the chosen set, needs a change, or is not judged."""
        if node.unknown or self.chosen is None:
            return "unknown"
        return "change" if any(each.node == node.name for each in self.changes) else "fits"

    def exit_code(self) -> int:
        """Return 1 where a node is unknown or nothing fits all, else 2 for changes, else 0."""
        if self.chosen is None or any(node.unknown for node in self.nodes):
            return 1
        return 2 if self.changes else 0


def fit(seen: Mapping[str, Seen]) -> Fit:
    """Return what fits the nodes for jobs; of one that is unknown its GPUs alone count."""
    asked = {name: each for name, each in seen.items() if not each.wanted.is_cpu_node}
    nodes = tuple(node_of(name, each) for name, each in asked.items())
    known = [node for node in nodes if not node.unknown]
    if not known:
        return Fit(nodes)
    outs = _Outs()
    every = wheels(known)
    # Those of the others are known, or the inventory has them.
    counting = [node for node in nodes if node.models]
    drivers = outs.suiting("driver", branches(), _number, against_branch, counting)
    known_kernels = partial(against_wheel, known=measured(counting))
    fitting = outs.suiting("torch", every, label, known_kernels, counting)
    for kind, node in product(("open", "proprietary"), counting):
        outs.add("module", kind, against_module(kind, node), node.name)
    pairs = [Set(driver, wheel) for driver in drivers for wheel in fitting if _runs(driver, wheel)]
    if drivers and fitting:  # else what there is of one is shown, although it has no partner
        _unpaired(drivers, fitting, pairs, outs)
        drivers = [each for each in drivers if any(each == pair.driver for pair in pairs)]
        fitting = [each for each in fitting if any(each == pair.wheel for pair in pairs)]
    chosen = _best(pairs, known)
    _versions(every, fitting, counting, outs)
    return Fit(
        nodes,
        tuple(drivers),
        tuple(sorted(fitting, key=_by_cuda)),
        tuple(outs.listed()),
        chosen,
        tuple(_changes(chosen, known)) if chosen else (),
    )


class _Outs:
    """What is ruled out, by what it is and the reason, in the order of finding it."""

    def __init__(self) -> None:
        self.found: dict[tuple[What, Reason], tuple[dict[str, None], dict[str, None]]] = {}

    def add(self, what: What, value: str, reasons: Iterable[Reason], node: str = "") -> bool:
        """Add the reasons against a value on a node; return whether there is one."""
        is_out = False
        for reason in reasons:
            values, nodes = self.found.setdefault((what, reason), ({}, {}))
            values[value] = None
            nodes.update({node: None} if node else {})
            is_out = True
        return is_out

    def suiting(
        self,
        what: What,
        choices: Iterable[_Choice],
        named: Callable[[_Choice], str],
        against: Callable[[_Choice, Node], Iterable[Reason]],
        nodes: Collection[Node],
    ) -> list[_Choice]:
        """Return the choices that suit each node by itself; add the reasons against the others."""
        return [
            each
            for each in choices
            # A list: the reasons of all nodes are wanted, not of the first alone.
            if not any(
                [self.add(what, named(each), against(each, node), node.name) for node in nodes]
            )
        ]

    def has(self, what: What, value: str) -> bool:
        """Whether there is a reason against a value."""
        return any(each == what and value in out[0] for (each, _), out in self.found.items())

    def listed(self) -> Iterator[RuledOut]:
        """Yield them, drivers first."""
        for (what, reason), (values, nodes) in sorted(
            self.found.items(), key=lambda each: _ORDER.index(each[0][0])
        ):
            yield RuledOut(what, (*values,), reason.why, (*nodes,), reason.table)


def _number(branch: Branch) -> str:
    return str(branch.number)


def _by_cuda(wheel: Wheel) -> tuple[object, ...]:
    return numbers(wheel.cuda), numbers(wheel.torch)


def label(wheel: Wheel) -> str:
    """Return a torch for people and for JSON: 2.1.2 for CUDA 12.1 is 2.1.2+cu121."""
    return f"{wheel.torch}+cu{wheel.cuda.replace('.', '')}"


def _runs(driver: Branch, wheel: Wheel) -> bool:
    first = floor(wheel.cuda)
    return first is not None and first <= driver.number


def _unpaired(
    drivers: Sequence[Branch], fitting: Sequence[Wheel], pairs: Sequence[Set], outs: _Outs
) -> None:
    """Add the drivers and the torches that suit the nodes, and not each other."""
    for driver in (each for each in drivers if not any(each == pair.driver for pair in pairs)):
        oldest = min(fitting, key=lambda each: floor(each.cuda) or 0)
        why = f"CUDA {_major(oldest)} needs branch {floor(oldest.cuda)} or newer, and no torch of "
        reason = Reason(f"{why}an older CUDA fits all nodes", "cuda_floors.tsv")
        outs.add("driver", _number(driver), [reason])
    for wheel in (each for each in fitting if not any(each == pair.wheel for pair in pairs)):
        first = floor(wheel.cuda)
        why = f"CUDA {_major(wheel)} needs driver branch {first} or newer, and none fits all nodes"
        outs.add("torch", label(wheel), [Reason(why, "cuda_floors.tsv")])
        outs.add("cuda", wheel.cuda, [Reason(why, "cuda_floors.tsv")])


def _major(wheel: Wheel) -> str:
    return wheel.cuda.partition(".")[0]


def _versions(
    every: Sequence[Wheel], fitting: Collection[Wheel], nodes: Sequence[Node], outs: _Outs
) -> None:
    """Add the CUDA and NCCL versions that none of the fitting torches has."""
    fits = {wheel.cuda for wheel in fitting}
    for cuda in sorted({each.cuda for each in every} - fits, key=numbers):
        by_gpu = [outs.add("cuda", cuda, against_cuda(cuda, node), node.name) for node in nodes]
        if not any(by_gpu) and not outs.has("cuda", cuda):
            reason = Reason("no torch that is built for it fits all nodes", "torch_releases.tsv")
            outs.add("cuda", cuda, [reason])
    fits = {wheel.nccl or "" for wheel in fitting}
    for nccl in sorted({each.nccl or "" for each in every} - fits - {""}, key=numbers):
        reason = Reason("no torch that pins it fits all nodes", "torch_releases.tsv")
        outs.add("nccl", nccl, [reason])


def _best(pairs: Iterable[Set], nodes: Collection[Node]) -> Set | None:
    """Return the set with the fewest changes, of them the fewest of drivers, which need a reboot.

    Of several such: the driver that is maintained longest, the newest torch, one that plain pip
    takes, the newest CUDA and branch. None where there is no set.
    """
    pairs = [*pairs]
    drivers = {
        driver: sum(not _has_driver(node, driver) for node in nodes)
        for driver in {pair.driver for pair in pairs}
    }
    torches = {
        wheel: sum(not _has_torch(node, wheel) for node in nodes)
        for wheel in {pair.wheel for pair in pairs}
    }
    return min(
        pairs,
        key=lambda each: _order(each, drivers[each.driver], torches[each.wheel]),
        default=None,
    )


def _order(pair: Set, drivers: int, torches: int) -> tuple[object, ...]:
    """Return the key by which the best set is the least; how many drivers and torches change."""
    wheel = pair.wheel
    return (
        drivers + torches,
        drivers,
        _newest(pair.driver.until.replace("-", ".") or "0"),
        _newest(wheel.torch),
        wheel.wheel != "default",
        _newest(wheel.cuda),
        -pair.driver.number,
    )


def _newest(version: str) -> tuple[int, ...]:
    return tuple(-number for number in numbers(version))


def _changes(pair: Set, nodes: Iterable[Node]) -> Iterator[Change]:
    """Yield what nodes change to have a set."""
    for node in nodes:
        if not _has_driver(node, pair.driver):
            kind = "" if node.module == "either" else f", the {node.module} kernel module"
            wanted = f"a driver of branch {pair.driver.number}{kind}"
            yield Change(node.name, "driver", _driver(node), wanted)
        if not _has_torch(node, pair.wheel):
            found = ", ".join(torch.version for _, torch in node.torches)
            where = node.torches[0][0] if node.torches else ""
            nccl = f", NCCL {pair.wheel.nccl}" if pair.wheel.nccl else ""
            wanted = f"torch {pair.wheel.torch} for CUDA {pair.wheel.cuda}{nccl}"
            yield Change(node.name, "torch", found or "none", wanted, where)


def _has_driver(node: Node, driver: Branch) -> bool:
    if not node.driver or branch_of(node.driver) != driver.number:
        return False
    kind = "open" if node.is_open else "proprietary"
    return node.is_open is None or node.module in ("either", kind)


def _driver(node: Node) -> str:
    """Return the driver of a node; with the kind of its module where that is the wrong one."""
    kind = {True: "open", False: "proprietary", None: ""}[node.is_open]
    is_wrong = kind and node.module not in ("either", kind)
    return (node.driver or "none") + (f", the {kind} kernel module" if is_wrong else "")


def _has_torch(node: Node, wheel: Wheel) -> bool:
    """Whether one of the node's environments has a torch."""
    there = {(torch.version.partition("+")[0], torch.cuda) for _, torch in node.torches}
    return (wheel.torch, wheel.cuda) in there
