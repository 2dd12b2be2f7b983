"""The result of a verification: one row for each node, the bandwidth, the problems."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_node.verify.isolate import Named, Tried


@dataclass(frozen=True)
class Row:
    """One node: what its ranks were given and used; "" if unknown.

    `nofile` is None if there is no limit or it is unknown; `shm` is in bytes.
    """

    node: str
    ranks: str = ""
    stage: str = ""
    device: str = ""
    network: str = ""
    torch: str = ""
    nccl: str = ""
    ifname: str = ""
    nofile: int | None = None
    shm: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a verification ended: `ok` means that every rank computed the right sums, in time.

    `how` names the launcher, the ranks and the backend; `size` is that of the large tensor in
    bytes. `bandwidth` is the bus bandwidth in bytes a second, as nccl-tests count it. `named` is
    what is wrong, `working` the largest set that works: the slots of each node. `tries` has the
    nodes alone, the pairs and the sets that were tried.
    """

    ok: bool
    rows: tuple[Row, ...] = ()
    how: str = ""
    size: int = 0
    bandwidth: float | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    named: tuple[Named, ...] = ()
    working: Mapping[str, int] = field(default_factory=dict)
    tries: tuple[Tried, ...] = ()
