"""Ranks: what each one told of itself, and the rows and the bandwidth that come of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verify.outcome import Row

# In their order; a rank that failed tells which of them it had reached.
STAGES = ("started", "imported", "connected", "init", "small", "large", "done")
INFINIBAND = "InfiniBand"
# NET/Socket : Using [0]bond0:10.0.0.4<0>; NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB bond0:10.0.0.4
_SOCKET = re.compile(r"NET/Socket\s*: Using (?P<used>.+)$")
_IB = re.compile(r"NET/IB\s*: Using (?P<used>.+?)(?: ?; ?OOB (?P<oob>\S+))?$")
_BOOTSTRAP = re.compile(r"Bootstrap\s*: Using (?P<used>\S+)")
_NUMBERED = re.compile(r"\[\d+\](\S+?)(?:<\d+>)?(?=\s|$)")


@dataclass(frozen=True)
class Rank:
    """One rank: its number, its node, and what it told at each stage that it reached."""

    number: int
    node: str
    told: Mapping[str, Mapping[str, Any]]

    @property
    def stage(self) -> str:
        """The last stage it reached; "" for none."""
        return next((stage for stage in reversed(STAGES) if stage in self.told), "")

    @property
    def error(self) -> str:
        """What it failed of; "" where it said nothing of the kind."""
        return str(self.told.get("failed", {}).get("error", ""))

    def says(self, key: str) -> Any:
        """Return a value of whichever stage told it; None where none has."""
        return next((each[key] for each in self.told.values() if each.get(key) is not None), None)


def ranks_of(told: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Rank]:
    """Return the ranks from the lines of each node, by number."""
    found: dict[tuple[int, str], dict[str, Mapping[str, Any]]] = {}
    for node, lines in told.items():
        for line in lines:
            found.setdefault((int(line["rank"]), node), {})[str(line["stage"])] = line
    return [Rank(number, node, stages) for (number, node), stages in sorted(found.items())]


def rows(nodes: Sequence[str], ranks: Sequence[Rank], port: int) -> tuple[Row, ...]:
    """Return a row for each node; `port` is where the ranks meet, which is not their data's way."""
    return tuple(_row(node, [rank for rank in ranks if rank.node == node], port) for node in nodes)


def _row(node: str, ranks: Sequence[Rank], port: int) -> Row:
    if not ranks:
        return Row(node=node, stage="no rank started")
    first = ranks[0]
    source = first.says("ifname_from")
    return Row(
        node=node,
        ranks=_span([rank.number for rank in ranks]),
        stage=min((rank.stage for rank in ranks), key=STAGES.index),
        device=_joined(rank.says("device") for rank in ranks),
        network=_joined(each for rank in ranks for each in network(rank, port)),
        torch=_joined(rank.says("torch") for rank in ranks),
        nccl=_joined(rank.says("nccl") for rank in ranks),
        ifname=f"{first.says('ifname')} ({source})" if source else "",
        nofile=min((each for rank in ranks if (each := rank.says("nofile"))), default=None),
        shm=first.says("shm"),
    )


def network(rank: Rank, port: int) -> list[str]:
    """Return `interface address` of each way a rank's data takes: NCCL's word, else its sockets."""
    said = _nccl(rank.says("nccl_log") or ())
    if said:
        return said
    names = {address: name for name, address in (rank.says("interfaces") or {}).items()}
    connections = rank.says("connections") or ()
    data = [row for row in connections if port not in (row[1], row[3])]
    addresses = dict.fromkeys(str(row[0]) for row in data or connections)
    return [f"{names[each]} {each}" if each in names else each for each in addresses]


def _nccl(lines: Iterable[str]) -> list[str]:
    """The interfaces of NCCL's log: those of the transport it chose, else of its first meeting."""
    bootstrap: list[str] = []
    for line in lines:
        if found := _IB.search(line):
            devices = [each.partition("/")[0] for each in _NUMBERED.findall(found["used"])]
            oob = f" (meeting by {_plain(found['oob'])})" if found["oob"] else ""
            return [f"{INFINIBAND} {', '.join(devices)}{oob}"]
        if found := _SOCKET.search(line):
            return [_plain(each) for each in _NUMBERED.findall(found["used"])]
        if found := _BOOTSTRAP.search(line):
            bootstrap = [_plain(found["used"])]
    return bootstrap


def _plain(text: str) -> str:
    """bond0 10.0.0.4 for [0]bond0:10.0.0.4<0>."""
    name, _, address = re.sub(r"^\[\d+\]|<\d+>$", "", text).partition(":")
    return f"{name} {address}"


def _span(numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    whole = list(numbers) == list(range(first, last + 1)) and first != last
    return f"{first}-{last}" if whole else ", ".join(map(str, numbers))


def _joined(words: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(word) for word in words if word))


def bandwidth(ranks: Iterable[Rank]) -> float | None:
    """Return the bus bandwidth in bytes a second, as nccl-tests count it; None if not measured.

    With one rank nothing is sent, and there is none.
    """
    measured = [rank.told["done"] for rank in ranks if "done" in rank.told]
    if not measured or measured[0]["ranks"] < 2:
        return None
    count = measured[0]["ranks"]
    slowest = max(each["seconds"] for each in measured)
    return float(measured[0]["bytes"] / slowest * 2 * (count - 1) / count)
