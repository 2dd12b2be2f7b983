"""`gpu-node hostfile --healthy` on nodes that answer at once: its output and its exit codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_node.cli.main import main
from gpu_node.facts.ask.gather import Answer
from tests.drift import states
from tests.drift.reports import FRESH


@pytest.mark.parametrize(
    ("nodes", "code", "out", "err"),
    [
        ({"a": {}}, 0, "a slots=2\n", ""),
        (
            {"a": {}, "b": {}},
            0,
            "a slots=2\nb slots=2\n",
            "gpu-node: found no login tried between 1 pair of these nodes; next: gpu-node drift "
            "FILE\n",
        ),
        (
            {"a": {}, "b": FRESH},
            2,
            "a slots=2\n",
            "gpu-node: b: left out: found shm.too-small: /dev/shm: 64M\n",
        ),
        (
            {"b": FRESH},
            1,
            "",
            "gpu-node: b: left out: found shm.too-small: /dev/shm: 64M\n"
            "gpu-node: found no node on which a job can start; next: gpu-node drift FILE\n",
        ),
    ],
    ids=["all", "no login tried", "some", "none"],
)
def test_healthy(
    nodes: dict[str, Any],
    code: int,
    out: str,
    err: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only the hostfile is on stdout; the reasons are on stderr."""
    data = {**states.BASE["wanted"], "ssh_hostname": "192.0.2.10"}

    def gather(*_: object, **__: object) -> dict[str, Answer]:
        return {
            name: Answer(data, states.state(each), reached=True) for name, each in nodes.items()
        }

    file = str(folder / "site.py")
    monkeypatch.setattr("gpu_node.cli.asking.gather", gather)
    monkeypatch.setattr(sys, "argv", ["gpu-node", "hostfile", file, "--healthy"])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert (ended.value.code or 0, printed.out) == (code, out)
    assert printed.err.replace(file, "FILE") == err
