"""Removal: the cluster file and known_hosts are what they were, and what was cut off is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.engine.finding import Finding, OffFinding
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.seen import Seen
from gpu_node.inventories.errors import Unconfirmed
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.inventories.yaml import edit as editing
from gpu_node.inventories.yaml.edit import with_host
from gpu_node.onboarding import journal, removal
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.removal import remove
from gpu_node.onboarding.run_pyinfra import Unfinished
from tests.drift import states
from tests.drift.reports import report

CLUSTER = """\
cluster: c  # ours
defaults: {ssh: {user: root, key: known_hosts, known_hosts: known_hosts, mesh: true}}
groups: {v100: {}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}  # first
"""
NEW = "v100-02"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPb01Cgp7w8CmSCXX0S/3NsMWmeI1c6ZkQOOpwc48wdW"
OTHERS = f"192.0.2.10 {KEY}\n# a line of the user"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A cluster file and known_hosts as they are after an onboarding."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "known_hosts").write_text(
        f"192.0.2.10 {KEY}\n192.0.2.12 {KEY}\n# a line of the user"
    )
    entry = {"address": "192.0.2.12", "group": "v100"}
    (tmp_path / "site.yml").write_text(with_host(CLUSTER, NEW, entry))
    (tmp_path / "site.py").write_text("")
    return site_of(str(tmp_path / "site.py"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What pyinfra is run with, by which it does nothing."""
    done: list[dict[str, str]] = []
    monkeypatch.setattr(removal, "pyinfra", lambda site, deploy, **data: done.append(data))
    return done


def no_answer(inventory: str) -> dict[str, Seen]:
    """The other node is down: what it knows is unknown."""
    wanted = NodeWanted.from_data({"ssh_hostname": "192.0.2.10"})
    return {"a100-01": Seen(wanted, error="timed out", reached=False)}


def known(site: Site) -> str:
    return site.file.with_name("known_hosts").read_text()


def begin(site: Site, name: str, address: str, *, pins: bool = True) -> None:
    """Have an onboarding begun, which pinned the host key or found it pinned."""
    line = f"{address} {KEY}\n"
    if line not in known(site):
        site.file.with_name("known_hosts").write_text(line + known(site))
    made = Journal(name=name, address=address, user="root", port=22)
    journal.write(site, made.model_copy(update={"pinned": (address,) if pins else ()}))


def test_nothing_of_it_is_left(site: Site, runs: list[dict[str, str]]) -> None:
    remove(site, NEW, UserConsole(yes=True), no_answer)
    assert (site.text(), known(site)) == (CLUSTER, OTHERS)
    assert runs == [{"areas": "ssh"}]


def test_a_look_changes_nothing(
    site: Site, runs: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    before = site.text(), known(site)
    remove(site, NEW, UserConsole(), no_answer, dry=True)
    assert (site.text(), known(site)) == before and runs == []
    shown = capsys.readouterr().out
    assert f"-  {NEW}: " in shown and f"-192.0.2.12 {KEY}" in shown


def test_a_group_without_hosts_stays(
    site: Site, runs: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have been made for this very host; one that others are in has no word."""
    remove(site, NEW, UserConsole(), no_answer, dry=True)
    assert "group" not in capsys.readouterr().err
    text = site.text().replace("{v100: {}}", "{v100: {}, h100: {}}")
    site.file.write_text(text.replace("192.0.2.12, group: v100", "192.0.2.12, group: h100"))
    remove(site, NEW, UserConsole(yes=True), no_answer)
    line = f"group h100 has no other host; it stays in {site.file}\n"
    assert line in capsys.readouterr().err
    assert "h100: {}" in site.text() and NEW not in site.text()


def test_without_a_confirmation_nothing_changes(site: Site, runs: list[dict[str, str]]) -> None:
    before = site.text(), known(site)
    with pytest.raises(
        Unconfirmed, match=r"^found no terminal to confirm the removal; allowed: a terminal, or -y$"
    ):
        remove(site, NEW, UserConsole(), no_answer)
    assert (site.text(), known(site)) == before and runs == []


def test_one_that_was_cut_off_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node was down: it still knows the one that was taken out, until this is run again."""
    done: list[dict[str, str]] = []

    def down(site: Site, deploy: Path, **data: str) -> None:
        done.append(data)
        if not done[1:]:
            raise Unfinished(1, ("a100-01",))

    monkeypatch.setattr(removal, "pyinfra", down)
    with pytest.raises(Stopped, match="and a100-01 may still know it; next: repair what"):
        remove(site, NEW, UserConsole(yes=True), no_answer)
    assert site.text() == CLUSTER
    remove(site, NEW, UserConsole(yes=True), no_answer)
    assert len(done) == 2


@pytest.mark.parametrize("is_off", [False, True], ids=["on", "off by checks"])
@pytest.mark.parametrize("rule", ["ssh.no-login", "ssh.block-outdated", "ssh.unreadable"])
def test_what_is_left_of_others(
    site: Site, monkeypatch: pytest.MonkeyPatch, rule: str, is_off: bool
) -> None:
    """The removal has ended once no node has lines of the removed one; each node is asked."""

    def unfinished(site: Site, deploy: Path, **data: str) -> None:
        raise Unfinished(1, ("a100-01",))

    def judged(inventory: str, seen: object) -> Report:
        words: dict[str, Any] = dict.fromkeys(("subject", "found", "wanted", "cause", "fix"), "x")
        words |= {"rule": rule, "severity": "error", "fixable": False, "step": "ssh"}
        off = [OffFinding(**words, entry=rule)] if is_off else []
        host = HostReport(status="drift", findings=[] if off else [Finding(**words)], off=off)
        return whole.model_copy(update={"hosts": {"a100-01": host}})

    whole = report({"a100-01": states.seen(None)})
    monkeypatch.setattr(removal, "pyinfra", unfinished)
    monkeypatch.setattr(removal, "report_of", judged)
    if rule == "ssh.no-login":
        remove(site, NEW, UserConsole(yes=True), no_answer)
        return
    with pytest.raises(Stopped, match="may still know it"):
        remove(site, NEW, UserConsole(yes=True), no_answer)


def test_nodes_that_cannot_be_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ended before it had asked any of them."""

    def ended(site: Site, deploy: Path, **data: str) -> None:
        raise Unfinished(-9, ())

    monkeypatch.setattr(removal, "pyinfra", ended)
    with pytest.raises(Stopped, match="and some node may still know it; next: repair what"):
        remove(site, NEW, UserConsole(yes=True), no_answer)


def test_one_that_is_not_there(site: Site, runs: list[dict[str, str]]) -> None:
    """It may have been removed; a node that lives is never suggested in its place."""
    before = site.text()
    with pytest.raises(Stopped) as caught:
        remove(site, "v100-03", UserConsole(yes=True), no_answer)
    assert str(caught.value) == (
        f"{site.file}: hosts: found 'v100-03' (no such host; if it was removed before, "
        f"nothing is left to do); allowed: a100-01, {NEW}"
    )
    assert (site.text(), runs) == (before, [])


def test_one_that_others_copy_from_stays(site: Site, runs: list[dict[str, str]]) -> None:
    workspace = f"groups: {{v100: {{workspace: {{path: /data/w, source: {NEW}}}}}}}"
    site.file.write_text(site.text().replace("groups: {v100: {}}", workspace))
    before = site.text()
    with pytest.raises(Stopped) as caught:
        remove(site, NEW, UserConsole(yes=True), no_answer)
    assert str(caught.value) == (
        f"{site.file}:3: groups.v100.workspace.source: found '{NEW}' (the node that is to be "
        "removed); allowed: another node; next: change or remove that line first"
    )
    assert site.text() == before and runs == []


def test_every_line_that_names_it_is_reported(site: Site, runs: list[dict[str, str]]) -> None:
    """Each with where it stands; its own entry goes with it."""
    copied = f"nccl: {{environments: [/opt/e], copy_from: {NEW}}}"
    own = "192.0.2.12, group: v100"
    text = site.text().replace("mesh: true}", f"mesh: true}}, {copied}")
    site.file.write_text(text.replace(own, f"{own}, nccl: {{copy_from: {NEW}}}"))
    with pytest.raises(Stopped) as caught:
        remove(site, NEW, UserConsole(), no_answer, dry=True)
    assert str(caught.value).splitlines() == [
        f"{site.file}:2: defaults.nccl.copy_from: found '{NEW}' (the node that is to be removed); "
        "allowed: another node; next: change or remove that line first"
    ]


def test_other_errors_of_the_new_file_are_reported(
    site: Site, runs: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "without_host", lambda text, _: f"{text}x: 1\n")
    with pytest.raises(Stopped, match=r": x: found "):
        remove(site, NEW, UserConsole(yes=True), no_answer)


def test_one_that_was_only_begun_is_given_up(site: Site, runs: list[dict[str, str]]) -> None:
    """The inventory never had it; its host key is forgotten, and others' lines stay."""
    members_known = known(site)
    begin(site, "v100-07", "192.0.2.17")
    before = site.text(), known(site)
    remove(site, "v100-07", UserConsole(), no_answer, dry=True)
    assert (site.text(), known(site)) == before
    remove(site, "v100-07", UserConsole(yes=True), no_answer)
    assert (site.text(), known(site), runs) == (before[0], members_known, [])
    assert journal.read(site, "v100-07") is None


def test_a_key_that_was_pinned_before_stays(
    site: Site, runs: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its owner pinned it, and not the onboarding that is given up."""
    begin(site, "localhost", "192.0.2.17", pins=False)
    before = known(site)
    remove(site, "localhost", UserConsole(yes=True), no_answer)
    assert known(site) == before and journal.read(site, "localhost") is None
    output = capsys.readouterr()
    assert "192.0.2.17 stays in" in output.err and output.out == ""


@pytest.mark.parametrize("name", ["v100-07", NEW])
def test_a_key_that_another_one_needs_stays(
    site: Site, runs: list[dict[str, str]], name: str
) -> None:
    """Another begun onboarding has the address, of one that is given up and of a member."""
    begin(site, "v100-08", "192.0.2.12", pins=False)
    if name != NEW:
        begin(site, name, "192.0.2.12")
    before = known(site)
    remove(site, name, UserConsole(yes=True), no_answer)
    assert known(site) == before and journal.read(site, name) is None


def test_a_key_of_a_node_stays(site: Site, runs: list[dict[str, str]]) -> None:
    """The address that was onboarded is one that the inventory has by now."""
    begin(site, "v100-07", "192.0.2.12")
    before = known(site)
    remove(site, "v100-07", UserConsole(yes=True), no_answer)
    assert known(site) == before


def test_one_that_goes_as_well_keeps_no_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of a removal that was cut off is no onboarding that needs it."""
    gone = Journal(name="v100-08", address="192.0.2.12", user="root", port=22, removed=True)
    journal.write(site, gone)
    monkeypatch.setattr(removal, "pyinfra", lambda *_, **__: None)
    remove(site, NEW, UserConsole(yes=True), no_answer)
    assert known(site) == OTHERS
