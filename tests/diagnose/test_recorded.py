"""The recorded logs: each has its label, and a failed one the line that shows its cause."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tests.case_files import load

RECORDED = Path(__file__).parent / "recorded"
LARGEST = 60_000
FEWEST = {"failed": 20, "healthy": 30}


class Healthy(BaseModel):
    """A job that ended with 0: `how` it was run, with which versions."""

    model_config = ConfigDict(extra="forbid", strict=True)

    how: str
    versions: dict[str, str]


class Failed(Healthy):
    """A job that failed. `rank` and `node` are those that failed first, where the log shows them.

    `side`: whether the machines are to be changed, or the code, its data and its configuration.
    """

    cause: str
    slug: str
    side: Literal["machines", "code"]
    rank: int | None
    node: str | None
    decisive: str


class Labels(BaseModel):
    """labels.yml: the name of a log in failed/ or healthy/, and what is known of it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    failed: dict[str, Failed]
    healthy: dict[str, Healthy]


@cache
def labels() -> Labels:
    return Labels.model_validate(load((RECORDED / "labels.yml").read_text("utf-8")))


def logs(kind: str) -> dict[str, list[Path]]:
    """Return the files of each recorded log: one, or all of its folder."""
    return {
        path.name.removesuffix(".gz").removesuffix(".log"): [path]
        if path.is_file()
        else sorted(file for file in path.rglob("*") if file.is_file())
        for path in (RECORDED / kind).iterdir()
    }


def text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")


def test_each_log_has_its_label() -> None:
    """And there are as many as the figures of `diagnose` need."""
    labelled = {"failed": set(labels().failed), "healthy": set(labels().healthy)}
    assert {kind: set(logs(kind)) for kind in labelled} == labelled
    assert all(len(labelled[kind]) >= fewest for kind, fewest in FEWEST.items())


def test_the_decisive_line_is_in_the_log() -> None:
    failed = logs("failed")
    missing = [
        name
        for name, label in labels().failed.items()
        if not any(label.decisive in text(path) for path in failed[name])
    ]
    assert missing == []


def test_no_log_is_large() -> None:
    files = [file for kind in FEWEST for found in logs(kind).values() for file in found]
    assert [file.name for file in files if len(text(file).encode()) > LARGEST] == []
