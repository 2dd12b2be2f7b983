"""The pre-flight put together: who is asked what, and by which names, keys and clocks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.engine.blocking import bars_joining
from gpu_node.drift.engine.finding import Finding
from gpu_node.facts.node import sections
from gpu_node.facts.probe.protocol import Reading, Readings, Section
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.onboarding import preflight
from gpu_node.onboarding.journal import Journal
from tests.facts.preflight import REQUEST
from tests.shells import as_lines, run

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIARmLr1ddHzaKTPq6utmFfI2IbnTs+x/MRBmhf4hpqgQ"

GIVEN = Journal(name="v100-02", address="192.0.2.12", user="root", port=22)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An inventory of two nodes, one of which is the server itself; no node is contacted."""
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:2200 ssh-ed25519 {KEY}\n")
    data: dict[str, dict[str, Any]] = {
        "a100-01": {"ssh_hostname": "127.0.0.1", "ssh_port": 2200},
        "v100-02": {"ssh_hostname": "192.0.2.12"},
    }
    whole = {name: {**each, "ssh_known_hosts_file": str(known)} for name, each in data.items()}
    asked: dict[str, Any] = {}

    def ask_each(
        inventory: str, limits: Iterable[str], sections: Sequence[Section]
    ) -> dict[str, Readings | str]:
        asked.update(inventory=inventory, limits=list(limits), sections=sections)
        none = Reading(0, "", "cut")
        return {"a100-01": Readings({each.name: none for each in sections})}

    monkeypatch.setattr(preflight, "all_data", lambda _: whole)
    monkeypatch.setattr(preflight, "ask_each", ask_each)
    return asked


def _here(script: str, seconds: int) -> list[str]:
    """This machine as the server, less what asks repositories."""
    quiet = script.replace("then ask_apt", "then :")
    return as_lines(run("dash", quiet, seconds=seconds).stdout)


def _look(run: preflight.Run = _here) -> list[Finding]:
    looked = preflight.look(run, "site.py", GIVEN, host_keys=["ssh-rsa A"])
    return looked.report().hosts["v100-02"].findings


def test_the_server_itself_is_no_node_to_ask(cluster: dict[str, Any]) -> None:
    """A second onboarding finds it in the inventory; the others are asked about it."""
    findings = _look()
    assert (cluster["inventory"], cluster["limits"]) == ("site.py", ["a100-01"])
    scan = next(each for each in cluster["sections"] if each.name == "ssh.scans")
    assert "scan v100-02 192.0.2.12 22 rsa &" in scan.command
    subjects = [each.subject for each in findings]
    assert "way to a100-01" in subjects
    assert "way to v100-02" not in subjects


def test_the_clock_is_this_machines(cluster: dict[str, Any]) -> None:
    """However long the probe takes."""

    def slow(script: str, seconds: int) -> list[str]:
        time.sleep(3)
        return _here(script, seconds)

    assert [each for each in _look(slow) if each.area == "clock"] == []


def test_an_answer_that_is_cut_is_never_right(cluster: dict[str, Any]) -> None:
    """Of a server that says nothing each section that it was asked is unknown."""
    findings = _look(lambda script, seconds: [])
    names = {each.name for each in sections(REQUEST) if each.name.startswith(preflight._OF_SERVER)}
    subjects = {each.subject for each in findings if each.rule.endswith(".unreadable")}
    assert names - subjects == set()
    assert any(map(bars_joining, findings))


@pytest.mark.parametrize("user", ["root", "carol"])
def test_the_training_user_is_there(cluster: dict[str, Any], user: str) -> None:
    """Without that account no key and no environment could be made: the server does not join."""
    wanted = NodeWanted.from_data({"ssh_hostname": "192.0.2.12", "launcher_user": user})
    level = {"launcher_user": user}
    looked = preflight.look(_here, "site.py", GIVEN, wanted=level)
    found = looked.report(wanted).hosts["v100-02"].findings
    missing = [each for each in found if each.rule == "env.user-missing"]
    assert [each.subject for each in missing if bars_joining(each)] == [user] * (user != "root")


def test_what_breaks_the_session_is_raised(
    cluster: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the caller's session; and no traceback is printed on the way."""

    def broken(script: str, seconds: int) -> list[str]:
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError, match="gone"):
        _look(broken)
    assert "Traceback" not in capsys.readouterr().err
