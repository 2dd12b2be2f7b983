"""What a verification found: a row a node, the bandwidth, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A node's part: what its ranks were given and used; "" where that is not known.

    `nofile` is None where there is no limit, or nothing is known; `shm` is in bytes.
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
    """How a verification ended: `ok` means that every rank added up what it should.

    `how` names the launcher, the ranks and the backend; `size` is that of the large tensor in
    bytes. `bandwidth` is that of the bus in bytes a second, as nccl-tests count it.
    """

    ok: bool
    rows: tuple[Row, ...] = ()
    how: str = ""
    size: int = 0
    bandwidth: float | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
