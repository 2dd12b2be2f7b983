"""What `gpu-node init` advises where no node could be reported on."""

from __future__ import annotations

from pathlib import Path

import pytest
from paramiko import ECDSAKey

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report.seen import Seen
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.initialising import Initialising
from gpu_node.onboarding.new_site import Access, NewSite
from tests.drift import states


def last_line(
    folder: Path,
    *seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What `init` ends with where its nodes are seen so."""
    monkeypatch.setattr(NewSite, "create", lambda *_: None)
    monkeypatch.setattr(NewSite, "suggest", lambda *_: None)
    monkeypatch.setattr("gpu_node.onboarding.initialising.ask_each", lambda *_: {})
    nodes = {f"a100-0{number}": each for number, each in enumerate(seen, 1)}
    made = Initialising(folder / "site", Access(), UserConsole(), lambda _: nodes)
    assert made.run(["a100-01=10.0.0.4"]) in (0, 1)
    *_, last = capsys.readouterr().err.strip().split("\n")
    return last


@pytest.mark.parametrize(
    ("refusal", "password", "advised"),
    [
        pytest.param(
            "sudo: a password is required",
            "",
            "site --again --ask-sudo-password; or remove sudo: true from ",
            id="a password",
        ),
        pytest.param(
            "sudo: sorry, you must have a tty to run sudo",
            "",
            "next: do what ssh.sudo-refused names, then: gpu-node init ",
            id="no terminal",
        ),
        pytest.param(
            "sudo refuses this password: Sorry",
            "s3cret pass",
            "next: do what ssh.sudo-refused names, then: gpu-node init ",
            id="another password",
        ),
    ],
)
def test_what_follows_a_refusal_of_sudo(
    refusal: str,
    password: str,
    advised: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command that sudo does not refuse again."""
    monkeypatch.setattr(SUDO, "_text", password)
    found = {
        "limits": {"user": {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}},
        "ssh": {"sudo_refusal": refusal},
    }
    seen = Seen(NodeWanted.from_data(states.BASE["wanted"]), states.state(found), sudo=True)
    last = last_line(tmp_path, seen, monkeypatch=monkeypatch, capsys=capsys)
    assert last.startswith("next: ") and advised in last
    assert " and report as the SSH user: gpu-node drift " in last


def test_a_password_is_asked_for_where_a_key_can_log_in(
    tmp_path: Path, controller: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one nothing is written either; what is in ~/.ssh is looked for first."""
    asked: list[str] = []
    monkeypatch.setattr(SUDO, "_ask", lambda: "x")
    monkeypatch.setattr(NewSite, "create", lambda *_: asked.append("created"))
    made = Initialising(tmp_path / "site", Access(), UserConsole(), lambda _: {})
    with pytest.raises(Stopped, match="no key to log in with") as error:
        made.run(["a100-01=10.0.0.4"])
    assert "next: ssh-keygen -t ed25519" in str(error.value) and asked == []
    (controller / ".ssh").mkdir()
    ECDSAKey.generate().write_private_key_file(str(controller / ".ssh" / "id_ecdsa"))
    made.run(["a100-01=10.0.0.4"])
    assert asked == ["created"]


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
    seen = Seen(wanted, error="the probe could not run: x", reached=reached)
    monkeypatch.setattr(SUDO, "_text", "s3cret pass")
    last = last_line(tmp_path, seen, monkeypatch=monkeypatch, capsys=capsys)
    assert last.startswith(advised)
    assert last.endswith("site --again --ask-sudo-password")


def test_what_is_found_later_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where some of the nodes were read: the others need `--again`, or no key has what they are."""
    wanted = NodeWanted.from_data(states.BASE["wanted"])
    read, gone = Seen(wanted, states.state({})), Seen(wanted, error="no route to host")
    last = last_line(tmp_path, read, gone, gone, monkeypatch=monkeypatch, capsys=capsys)
    assert last.startswith("next: say in ")
    assert "; when a100-02 and a100-03 can be read: gpu-node init " in last
    assert last.endswith("site --again, which writes what they have")
    last = last_line(tmp_path, read, monkeypatch=monkeypatch, capsys=capsys)
    assert "--again" not in last
