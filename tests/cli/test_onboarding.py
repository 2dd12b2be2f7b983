"""A run of `gpu-node onboard`: what is told of members and newcomers, in which turn, and once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cli import onboarding
from cli.onboarding import Onboarding
from drift.report.model import Report, Seen
from onboarding import joining, journal
from onboarding.admission import Terms, Wish
from onboarding.journal import Journal
from onboarding.screen import Screen
from onboarding.site import Site, site_of
from onboarding.stopped import Stopped
from tests.drift import reports, states
from verify.outcome import Outcome

CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: known_hosts, known_hosts: known_hosts}}
groups: {v100: {}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}
  v100-01: {address: 192.0.2.11, group: v100}
  v100-02: {address: 192.0.2.12, group: v100}
"""
NEW, MEMBER = Wish("v100-02", "192.0.2.12"), Wish("v100-01", "192.0.2.11")
WELL = {"a100-01": "ok", "v100-01": "ok", "v100-02": "ok"}


# Two kinds of drift, which differ from each other as well.
LIMITS = states.seen({"limits": reports.FRESH["limits"]})
KINDS = {**reports.KINDS, "limits": LIMITS}


class World:
    """The nodes: of which `kinds` they are, and what was done, in turn."""

    def __init__(self, site: Site) -> None:
        self.site, self.calls = site, list[str]()
        self.kinds: Mapping[str, str] = WELL
        self.outcome = Outcome(ok=True)

    def look(self, inventory: str, seen: dict[str, Seen]) -> Report:
        self.calls.append("look")
        return reports.report({name: KINDS[kind] for name, kind in self.kinds.items()})

    def deploy(self, site: Site, deploy: Path, **data: str) -> None:
        self.calls.append(" ".join(data))

    def job(self, inventory: str, names: Sequence[str], job: object) -> Outcome:
        self.calls.append(f"job of {' and '.join(names)}")
        return self.outcome

    def onboard(self, *wishes: Wish, dry: bool = False, proof: str = "auto") -> int:
        return Onboarding(self.site, Terms(dry=dry), Screen(yes=True), proof).run(wishes)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three nodes, of which v100-02 was begun; all let us in."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "site.yml").write_text(CLUSTER)
    (tmp_path / "site.py").write_text("")
    world = World(site_of(str(tmp_path / "site.yml")))
    journal.write(world.site, Journal(name=NEW.name, address="192.0.2.12", user="root", port=22))
    monkeypatch.setattr(onboarding, "let_in_again", lambda each, _: each.is_unfinished)
    monkeypatch.setattr(onboarding, "ask", lambda _: {})
    monkeypatch.setattr(onboarding, "report_of", world.look)
    monkeypatch.setattr(onboarding, "verify", world.job)
    monkeypatch.setattr(joining, "pyinfra", world.deploy)
    return world


Capture = pytest.CaptureFixture[str]


def test_a_member_is_judged_when_the_newcomers_have_joined(world: World, capsys: Capture) -> None:
    """By the one reading of all: before it the member does not know them."""
    assert world.onboard(NEW, MEMBER) == 0
    assert world.calls == ["areas", "change", "look", "job of a100-01 and v100-02"]
    said = capsys.readouterr().out
    assert "v100-02  a member, and proved" in said
    assert "v100-01  a member already, and clean" in said


@pytest.mark.parametrize("dry", [False, True])
def test_what_a_member_lacks_is_shown(world: World, capsys: Capture, dry: bool) -> None:
    world.kinds = {**WELL, "v100-01": "drift"}
    assert world.onboard(MEMBER, dry=dry) == 1
    said = capsys.readouterr()
    assert "error  limits.nofile" in said.out
    assert "Error: v100-01: in the inventory already\n  it has drift, see above\n" in said.err
    assert f"  repair it: pyinfra {world.site.inventory} deploy/gpu_node.py\n" in said.err


@pytest.mark.parametrize(
    ("kind", "way"),
    [("gone", "run this again when it answers"), ("unread", "run this again when all of it can")],
)
def test_what_could_not_be_read_is_not_repaired(
    world: World, capsys: Capture, kind: str, way: str
) -> None:
    """A deploy could not reach it either; the report's words are told."""
    world.kinds = {**WELL, "v100-01": kind}
    assert world.onboard(MEMBER) == 1
    said = capsys.readouterr().err
    assert way in said and "repair it" not in said
    assert ("Connection refused" in said) is (kind == "gone")


@pytest.mark.parametrize(
    ("drifting", "words"),
    [
        ({"a100-01": "limits"}, "a100-01 has drift: "),
        ({"a100-01": "limits", "v100-02": "warning"}, "a100-01, v100-02 have drift: "),
    ],
)
def test_drift_of_others(
    world: World, capsys: Capture, drifting: dict[str, str], words: str
) -> None:
    """It is named, and does not make a member worse."""
    world.kinds = {**WELL, **drifting}
    assert world.onboard(MEMBER) == 0
    said = capsys.readouterr()
    assert words in said.err and "a member already, and clean" in said.out


def test_what_fails_is_told_at_once_and_the_name_once(world: World, capsys: Capture) -> None:
    """With many servers the summary is far away; with one it comes next."""
    taken = Wish("v100-01", "192.0.2.99")
    assert world.onboard(taken, NEW) == 1
    said = capsys.readouterr()
    line = f"v100-01: {world.site.file} has it with the address 192.0.2.11"
    assert said.err.index(line) < said.err.index("== mesh")
    assert world.onboard(taken) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"Error: {line}") and said.err.count("v100-01: ") == 1


def test_a_job_that_fails_alike_is_shown_once(world: World, capsys: Capture) -> None:
    world.outcome = Outcome(ok=False, problems=("v100-02: no torch",))
    assert world.onboard(NEW) == 1
    said = capsys.readouterr()
    assert said.out.count("no torch") == 1 and "v100-01 and v100-02: the same" in said.err
    assert "verify with a100-01, v100-01: v100-02: no torch\n  it is a member; only" in said.err


def test_an_only_node_is_not_called_proved(world: World, capsys: Capture) -> None:
    alone = [line for line in CLUSTER.splitlines(True) if "-01" not in line]
    world.site.file.write_text("".join(alone))
    world.kinds = {NEW.name: "ok"}
    assert world.onboard(NEW) == 0
    said = capsys.readouterr()
    assert "v100-02: a member; no job proved it" in said.out and "== verify" not in said.err


@pytest.mark.parametrize("many", [False, True])
def test_a_begun_one_that_does_not_let_us_in(
    world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Nothing is deployed for it."""

    def refuse(*_: object) -> bool:
        raise Stopped("its sshd takes no key of this machine")

    monkeypatch.setattr(onboarding, "let_in_again", refuse)
    assert world.onboard(*([NEW, MEMBER] if many else [NEW])) == 1
    assert world.calls == []
    assert capsys.readouterr().err.count("takes no key of this machine") == 1 + many
