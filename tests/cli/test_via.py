"""What a report has of nodes that another engine asked: next steps, and whose facts they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from pyinfra.api.exceptions import ConnectError

from gpu_node.cli.asking import ask_via, jobs_log_in, read_answers
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.via import clustershell, engines
from gpu_node.facts.ask.via.login import failure
from tests.drift import states

KEY = "SHA256:wnJS4bKXl5cWOAaBJyZE6sSlwbdKzllhpjFYWpGoKzo"
CHANGED = f"""@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
The fingerprint for the ED25519 key sent by the remote host is
{KEY}.
Host key verification failed."""
DENIED = "root@192.0.2.5: Permission denied (publickey)."
UNKNOWN = """No ED25519 host key is known for 192.0.2.5 and you have requested strict checking.
Host key verification failed."""


def answering(answer: Answer) -> Callable[..., dict[str, Answer]]:
    return lambda *_: {"a100-01": answer}


@pytest.mark.parametrize(
    ("stderr", "parts"),
    [
        (
            CHANGED,
            [
                f"its host key has changed: offered {KEY}; if it was reinstalled, compare",
                f"site.py a100-01 --accept {KEY}",
            ],
        ),
        (DENIED, ["Authentication error"]),
        (UNKNOWN, ["No host key for 192.0.2.5", "is not pinned", "then: gpu-node host-key "]),
    ],
)
def test_a_refused_key_has_its_next_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, parts: list[str]
) -> None:
    """As over SSH: the command that compares or pins the key."""
    error: ConnectError = failure(stderr.splitlines(), {})
    answer = Answer(states.BASE["wanted"], error=str(error), cause=error)
    monkeypatch.setattr(engines, "gather_via", answering(answer))
    (seen,) = ask_via("clustershell", str(folder / "site.py"), ()).values()
    assert not seen.reached
    assert all(each in (seen.error or "") for each in parts), seen.error


def test_a_job_has_no_sudo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the inventory allows over SSH."""
    data = {**states.BASE["wanted"], "_sudo": True}
    answer = Answer(data, states.state({}), reached=True, slurm_job=4711)
    monkeypatch.setattr(engines, "gather_via", answering(answer))
    (seen,) = ask_via("slurm", str(folder / "site.py"), ()).values()
    assert (seen.sudo, seen.slurm_job) == (False, 4711)


def refusal(folder: Path) -> str:
    """Why ClusterShell carries nothing."""
    with pytest.raises(click.ClickException) as caught:
        ask_via("clustershell", str(folder / "site.py"), ())
    return caught.value.message


def test_the_library_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error, with the command that installs it."""
    monkeypatch.setattr(clustershell, "LIBRARY", "no_such_library")
    assert refusal(folder) == (
        "--via clustershell: found no Python library no_such_library; allowed: the library, and "
        "ssh; next: pip install 'gpu-node[clustershell]'"
    )


def test_ssh_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error, not one for each node."""
    monkeypatch.setenv("PATH", str(folder))
    assert refusal(folder) == (
        "--via clustershell: found no program ssh in PATH; allowed: the library, and ssh; next: "
        "install OpenSSH's client"
    )


def test_whose_jobs_log_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the training user, if the inventory asks for logins."""
    site, file = folder / "site.yml", str(folder / "site.py")
    site.write_text(site.read_text().replace("{user: root", "{mesh: true, user: alice"))
    for user, log_in in (("alice", True), ("bob", False)):
        monkeypatch.setattr("getpass.getuser", lambda user=user: user)
        assert jobs_log_in(file, ()) is log_in


@pytest.mark.parametrize("via", ["slurm", "clustershell"])
def test_how_an_answer_came(folder: Path, monkeypatch: pytest.MonkeyPatch, via: str) -> None:
    """It decides the reason for logins that were not tried."""
    answer = Answer(states.BASE["wanted"], states.state({}), reached=True)
    monkeypatch.setattr(engines, "gather_via", answering(answer))
    (seen,) = ask_via(via, str(folder / "site.py"), ()).values()
    assert seen.via == via
    assert read_answers(str(folder / "site.py"), (), str(folder))["a100-01"].via == "files"
