"""Xid errors, which the NVIDIA driver writes into the kernel log: what each code means."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from gpu_node.drift.tables import rows

PREFIX = "xid."
_PAGES = "https://docs.nvidia.com/deploy/xid-errors/{}.html"
CATALOG = _PAGES.format("analyzing-xid-catalog")
UNKNOWN = f"look the code up in NVIDIA's catalog ({CATALOG}), and read the lines before it in dmesg"
DOES = {
    "none": "nothing: look for another error beside it",
    "restart": "start the job again; where it returns, look at the program, then at the GPU",
    "reset": "while nothing uses the GPU, reset it (nvidia-smi --gpu-reset -i GPU) or reboot; "
    "where it returns on one GPU, have that replaced; where it is the driver's, update it",
    "power": "take the node out, power it off and on (a reboot may not do), and check the power "
    "cables, the cooling and the seat of the card; where it returns, have the GPU replaced",
}


class Xid(NamedTuple):
    """A code: its name, whose fault it usually is, and what xids.tsv says beside."""

    code: int
    name: str
    whose: str
    action: str
    since: str
    cause: str
    source: str

    @property
    def is_alarm(self) -> bool:
        """Whether it asks something of the node, not of the job alone."""
        return self.action not in ("none", "restart")

    @property
    def does(self) -> str:
        """What a person does about it."""
        return DOES[self.action]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what `gpu-node explain` prints of it, each with its label."""
        yield "what", self.name
        yield "whose", "none: it follows from another error" if self.whose == "none" else self.whose
        yield "do", self.does
        if self.since != "-":
            yield "since", self.since
        if self.cause != "-":
            yield "cause", f"cause.{self.cause}"
        yield "source", self.source


@cache
def table() -> Mapping[int, Xid]:
    """Return the codes that xids.tsv knows."""
    return {
        code: Xid(code, **{**row, "source": _PAGES.format(row["source"])})
        for row in rows("xids.tsv")
        for code in map(int, row.pop("codes").split())
    }
