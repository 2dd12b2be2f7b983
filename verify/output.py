"""The output of a node's Python and ranks: each line is checked before it is used."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.bounds import in_words, read_json

Short = Annotated[str, Field(max_length=500)]
Version = Annotated[str, Field(max_length=100, pattern=r"^[0-9A-Za-z.+_-]*$")]
Port = Annotated[int, Field(ge=0, le=65535)]
Bytes = Annotated[int, Field(ge=0, le=2**60)]
Speed = Annotated[float, Field(gt=0, le=10**20)]
Count = Annotated[int, Field(ge=0, le=2**20)]
Stage = Literal["started", "imported", "connected", "init", "small", "large", "done", "failed"]
# One rank starts for each GPU.
MOST_GPUS = 128
# Lines of one node: each of its ranks writes one for each stage.
_MOST_LINES = 20_000


class Look(State):
    """What a node's Python has; `error` is why it cannot import PyTorch.

    `names` has the address that each node's name resolves to there; `port` is free there.
    """

    python: Annotated[str, AfterValidator(checked.path)]
    names: dict[Short, Annotated[str, AfterValidator(checked.address)] | None]
    port: Annotated[int, Field(ge=1, le=65535)]
    root: bool
    deepspeed: bool
    torch: Version | None = None
    distributed: bool = False
    gpus: Annotated[int, Field(ge=0, le=MOST_GPUS)] = 0
    nccl: Version | None = None
    error: Short | None = None


class Line(State):
    """A stage that a rank has reached, with its values; see `verify/job.py`."""

    rank: Count
    stage: Stage
    nofile: Annotated[int, Field(ge=0)] | None = None
    shm: Bytes | None = None
    ifname: Short | None = None
    ifname_from: Literal["environment", "nccl.conf"] | None = None
    gloo_ifname: Short | None = None
    own_address: Short | None = None
    torch: Version | None = None
    nccl: Version | None = None
    device: Short | None = None
    connections: Annotated[tuple[tuple[Short, Port, Short, Port], ...], Field(max_length=4096)] = ()
    interfaces: Annotated[dict[Short, Short], Field(max_length=4096, default_factory=dict)]
    nccl_log: Annotated[
        tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=100)
    ] = ()
    speeds: Annotated[dict[Short, Bytes], Field(max_length=4096, default_factory=dict)]
    seconds: Annotated[float, Field(gt=0, le=10**6)] | None = None
    bytes: Bytes | None = None
    ranks: Count | None = None
    product: Speed | None = None
    memory: Speed | None = None
    error: Short | None = None

    @model_validator(mode="after")
    def _has_its_values(self) -> Self:
        if self.stage == "done" and None in (self.seconds, self.bytes, self.ranks):
            raise ValueError("a rank that is done without what it has measured")
        return self


def whole(lines: Iterable[str]) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return the complete lines of ranks, and why another line is invalid ("" if none is).

    A line that is cut off is ignored: its rank ended while it wrote.
    """
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        try:
            if number >= _MOST_LINES:
                raise ValueError(f"more than {_MOST_LINES} lines")
            if line.endswith("}"):
                found.append(Line.model_validate(read_json(line)).model_dump(exclude_unset=True))
        except Exception as error:  # of any class: the node's answer caused it
            return tuple(found), in_words(error)
    return tuple(found), ""
