"""What `gpu-node init` advises where no node could be reported on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report.seen import Seen
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.schema import NodeWanted
from gpu_node.onboarding.initialising import Initialising
from gpu_node.onboarding.new_site import Access, NewSite
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
    wanted = NodeWanted.from_data(states.BASE["wanted"])
    seen = {"a100-01": Seen(wanted, error="the probe could not run: x", reached=reached)}
    monkeypatch.setattr(NewSite, "create", lambda *_: None)
    monkeypatch.setattr(SUDO, "_text", "s3cret pass")
    made = Initialising(tmp_path / "site", Access(), UserConsole(), lambda _: seen)
    assert made.run(["a100-01=10.0.0.4"]) == 1
    *_, last = capsys.readouterr().err.strip().split("\n")
    assert last.startswith(advised)
    assert last.endswith("site --again --ask-sudo-password")
