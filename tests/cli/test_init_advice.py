"""What `gpu-node init` advises where no node could be reported on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.cli.initialising import Initialising
from gpu_node.facts.ask.gather import Answer
from gpu_node.onboarding.console import UserConsole
from gpu_node.onboarding.new_site import Access, NewSite
from tests.cli.answering import gathered
from tests.drift import states


@pytest.mark.parametrize(
    ("reached", "advised"),
    [
        pytest.param(True, "next: do what the report names for each node, then:", id="logged in"),
        pytest.param(False, "next: make a login without a password work", id="no login"),
    ],
)
def test_a_login_is_advised_only_where_none_works(
    reached: bool,
    advised: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A node that was reached and cannot be read needs something else."""
    answer = Answer(states.BASE["wanted"], error="the probe could not run: x", reached=reached)
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered(answer))
    monkeypatch.setattr(NewSite, "create", lambda *_: None)
    made = Initialising(tmp_path / "site", Access(), UserConsole())
    assert made.run(["a100-01=10.0.0.4"]) == 1
    *_, last = capsys.readouterr().err.strip().split("\n")
    assert last.startswith(advised)
