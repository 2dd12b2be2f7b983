"""The labelled threads: each names its cause, and has the line of the log that shows it."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tests.case_files import load

# Who writes patterns reads only the shown ones.
HALVES = (
    "seen",
    "held_out",
    "fresh_shown",
    "fresh_hidden",
    "second_hidden",
    "third_hidden",
    "fourth_seen",
    "fourth_hidden",
    "fifth_hidden",
    "sixth_hidden",
)
FEWEST = 116
FOLDER = Path(__file__).parent / "threads"
FAMILIES = Literal[
    "nccl",
    "torch-distributed",
    "deepspeed",
    "bitsandbytes",
    "cuda-driver",
    "hardware",
    "memory",
    "files",
    "environment",
    "user-code",
]


class Thread(BaseModel):
    """A thread in public; `read`: whether log and confirmation were read whole, or parts of them.

    `side`: whether the machines were to be changed (nodes, versions, network, limits, hardware) or
    the code (the user's script, data and configuration, or a library). `rank` and `node` are those
    that failed first, where the log shows them. `symptom`: what the person saw. `decidable`:
    whether the log alone can show the cause. Older labels lack both.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    url: str
    date: str
    read: Literal["whole", "excerpts"]
    symptom: Literal["hang", "slow", "dies", "killed", "does not start", "other"] | None = None
    decidable: bool = True
    packages: dict[str, str]
    cause: str
    slug: str
    family: FAMILIES
    side: Literal["machines", "code"]
    rank: int | None
    node: str | None
    decisive: str
    confirmation: str
    log: str


@cache
def threads(half: str) -> list[Thread]:
    """Return the threads of a set, if there are any."""
    path = FOLDER / f"{half}.yml"
    labelled = load(path.read_text("utf-8")) if path.exists() else []
    return [Thread.model_validate(each) for each in labelled]


def test_the_labels_are_whole() -> None:
    """No thread is in two sets, and each has its decisive line."""
    halves = {half: threads(half) for half in HALVES}
    assert sum(map(len, halves.values())) >= FEWEST
    labelled = [thread for found in halves.values() for thread in found]
    assert len({thread.url for thread in labelled}) == len(labelled)
    # One line may be all that two people show.
    long = [thread.log for thread in labelled if thread.log.count("\n") > 1]
    assert len({*long}) == len(long)
    assert [thread.url for thread in labelled if thread.decisive not in thread.log] == []


def test_fresh_threads_are_as_they_were_frozen() -> None:
    """Before a pattern was written for them."""
    lines = (FOLDER / "frozen.sha256").read_text().splitlines()
    frozen = dict(line.split()[::-1] for line in lines)
    paths = [*FOLDER.glob("fresh_*"), *FOLDER.glob("*_hidden.yml")]
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in paths}
    assert found.items() <= frozen.items()
    assert "fresh_shown.yml" in found
