"""Ranks: what each one reported, and the rows and the bandwidth computed from it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.outcome import Row

# In their order; a failed rank reports the last one that it reached.
STAGES = ("started", "imported", "connected", "init", "small", "large", "done")
INFINIBAND = "InfiniBand"
# NET/Socket : Using [0]bond0:10.0.0.4<0>; NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB bond0:10.0.0.4
_SOCKET = re.compile(r"NET/Socket\s*: Using (?P<used>.+)$")
_IB = re.compile(r"NET/IB\s*: Using (?P<used>.+?)(?: ?; ?OOB (?P<oob>\S+))?$")
_BOOTSTRAP = re.compile(r"Bootstrap\s*: Using (?P<used>\S+)")
# The patterns take quadratic time on a line that repeats what they match.
_MOST_OF_A_LINE = 2000
_NUMBERED = re.compile(r"\[\d+\](\S+?)(?:<\d+>)?(?=\s|$)")


@dataclass(frozen=True)
class Rank:
    """One rank: its number, its node, and what it reported at each stage that it reached."""

    number: int
    node: str
    stages: Mapping[str, Mapping[str, Any]]

    @property
    def stage(self) -> str:
        """The last stage it reached: what reports anything has started."""
        return next((stage for stage in reversed(STAGES) if stage in self.stages), STAGES[0])

    @property
    def error(self) -> str:
        """Why it failed; "" if it reported no failure."""
        return str(self.stages.get("failed", {}).get("error", ""))

    def reported(self, key: str) -> Any:
        """Return a value from the first stage that reported it; None if no stage did."""
        return next(
            (stage[key] for stage in self.stages.values() if stage.get(key) is not None), None
        )


def ranks_of(outputs: Mapping[str, RankOutput]) -> list[Rank]:
    """Return the ranks from the output of each node, by number."""
    found: dict[tuple[int, str], dict[str, Mapping[str, Any]]] = {}
    for node, output in outputs.items():
        for line in output.ranks:
            found.setdefault((int(line["rank"]), node), {})[str(line["stage"])] = line
    return [Rank(number, node, stages) for (number, node), stages in sorted(found.items())]


def rows(nodes: Sequence[str], ranks: Sequence[Rank], port: int) -> tuple[Row, ...]:
    """Return a row for each node; at `port` the ranks meet, it carries no tensors."""
    return tuple(_row(node, [rank for rank in ranks if rank.node == node], port) for node in nodes)


def _row(node: str, ranks: Sequence[Rank], port: int) -> Row:
    if not ranks:
        return Row(node=node, stage="no rank started")
    first = ranks[0]
    source = first.reported("ifname_from")
    return Row(
        node=node,
        ranks=_span([rank.number for rank in ranks]),
        stage=min((rank.stage for rank in ranks), key=STAGES.index),
        device=_joined(rank.reported("device") for rank in ranks),
        network=_joined(each for rank in ranks for each in network(rank, port)),
        torch=_joined(rank.reported("torch") for rank in ranks),
        nccl=_joined(rank.reported("nccl") for rank in ranks),
        ifname=f"{first.reported('ifname')} ({source})" if source else "",
        nofile=min((each for rank in ranks if (each := rank.reported("nofile"))), default=None),
        shm=first.reported("shm"),
    )


def network(rank: Rank, port: int) -> list[str]:
    """Return `interface address` for a rank's data: from NCCL's log, else from its sockets."""
    logged = _nccl(rank.reported("nccl_log") or ())
    if logged:
        return logged
    names = {address: name for name, address in (rank.reported("interfaces") or {}).items()}
    connections = rank.reported("connections") or ()
    data = [row for row in connections if port not in (row[1], row[3])]
    addresses = dict.fromkeys(str(row[0]) for row in data or connections)
    return [f"{names[each]} {each}" if each in names else each for each in addresses]


def link(ranks: Iterable[Rank], node: str, port: int) -> float | None:
    """Return the bytes a second that the interfaces of a node's data allow; None if unknown."""
    found = {
        word: rank.reported("speeds")[word] / 8
        for rank in (each for each in ranks if each.node == node)
        for word in " ".join(network(rank, port)).replace(",", "").split()
        if word in (rank.reported("speeds") or {})
    }
    return sum(found.values()) or None


def _nccl(lines: Iterable[str]) -> list[str]:
    """Return the interfaces in NCCL's log: of the chosen transport, else of the bootstrap."""
    bootstrap: list[str] = []
    for each in lines:
        line = str(each).split("\n", 1)[0][:_MOST_OF_A_LINE]
        if match := _IB.search(line):
            devices = [each.partition("/")[0] for each in _NUMBERED.findall(match["used"])]
            oob = f" (bootstrap by {_plain(match['oob'])})" if match["oob"] else ""
            return [f"{INFINIBAND} {', '.join(devices)}{oob}"]
        if match := _SOCKET.search(line):
            return [_plain(each) for each in _NUMBERED.findall(match["used"])]
        if match := _BOOTSTRAP.search(line):
            bootstrap = [_plain(match["used"])]
    return bootstrap


def _plain(text: str) -> str:
    """bond0 10.0.0.4 for [0]bond0:10.0.0.4<0>."""
    name, _, address = re.sub(r"^\[\d+\]|<\d+>$", "", text).partition(":")
    return f"{name} {address}"


def _span(numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    whole = last - first == len(set(numbers)) - 1 and first != last
    return f"{first}-{last}" if whole else ", ".join(map(str, numbers))


def _joined(words: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(word) for word in words if word))


def bandwidth(ranks: Iterable[Rank]) -> float | None:
    """Return the bus bandwidth in bytes a second, as nccl-tests count it; None if not measured.

    One rank sends nothing, so there is no bandwidth.
    """
    measured = [rank.stages["done"] for rank in ranks if "done" in rank.stages]
    if not measured or measured[0]["ranks"] < 2:
        return None
    count = measured[0]["ranks"]
    slowest = max(each["seconds"] for each in measured)
    return float(measured[0]["bytes"] / slowest * 2 * (count - 1) / count)
