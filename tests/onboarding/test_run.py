"""A run of `gpu-node onboard`: what is printed about each server, in order, and once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.seen import Seen
from gpu_node.onboarding import joining, journal, run
from gpu_node.onboarding.admission import Admission, Options, Request
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.run import Onboarding
from gpu_node.verify.outcome import Outcome
from tests.drift import reports, states

CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: known_hosts, known_hosts: known_hosts}}
groups: {v100: {}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}
  v100-01: {address: 192.0.2.11, group: v100}
  v100-02: {address: 192.0.2.12, group: v100}
"""
NEW, MEMBER = Request("v100-02", "192.0.2.12"), Request("v100-01", "192.0.2.11")
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

    def onboard(self, *requests: Request, dry: bool = False, proof: str = "auto") -> int:
        options, console = Options(dry=dry), UserConsole(yes=True)
        return Onboarding(self.site, options, console, proof, lambda _: {}).run(requests)


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
    monkeypatch.setattr(Admission, "let_in_again", lambda each, _: each.is_unfinished)
    monkeypatch.setattr(run, "report_of", world.look)
    monkeypatch.setattr(run, "verify", world.job)
    monkeypatch.setattr(joining, "pyinfra", world.deploy)
    return world


Capture = pytest.CaptureFixture[str]


def test_a_member_is_judged_when_the_newcomers_have_joined(world: World, capsys: Capture) -> None:
    """By the one reading of all: before it the member does not know them."""
    assert world.onboard(NEW, MEMBER) == 0
    assert world.calls == ["areas", "change", "look", "job of a100-01 and v100-02"]
    output = capsys.readouterr().out
    assert "v100-02  a member, and proved" in output
    assert "v100-01  a member already, and clean" in output


@pytest.mark.parametrize("dry", [False, True])
def test_what_a_member_lacks_is_shown(world: World, capsys: Capture, dry: bool) -> None:
    world.kinds = {**WELL, "v100-01": "drift"}
    assert world.onboard(MEMBER, dry=dry) == 1
    output = capsys.readouterr()
    assert re.search(r"error +v100-01 +limits\.nofile", output.out)
    assert (
        "gpu-node: v100-01: found a member already: it has drift, see above; next: " in output.err
    )
    assert f"next: repair it: gpu-node deploy {world.site.inventory}\n" in output.err


@pytest.mark.parametrize(
    ("kind", "way"),
    [("gone", "run this again when it answers"), ("unread", "run this again when all of it can")],
)
def test_what_could_not_be_read_is_not_repaired(
    world: World, capsys: Capture, kind: str, way: str
) -> None:
    """A deploy could not reach it either; the error is that of the report."""
    world.kinds = {**WELL, "v100-01": kind}
    assert world.onboard(MEMBER) == 1
    output = capsys.readouterr().err
    assert way in output and "repair it" not in output
    assert ("Connection refused" in output) is (kind == "gone")


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
    output = capsys.readouterr()
    assert words in output.err and "a member already, and clean" in output.out


def test_a_failure_is_printed_at_once_and_the_name_once(world: World, capsys: Capture) -> None:
    """With many servers the summary is far away; with one it comes next."""
    taken = Request("v100-01", "192.0.2.99")
    assert world.onboard(taken, NEW) == 1
    output = capsys.readouterr()
    line = f"v100-01: found '192.0.2.99' ({world.site.file} has v100-01 with the address 192.0.2.11"
    assert output.err.index(line) < output.err.index("== mesh")
    assert world.onboard(taken) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"gpu-node: {line}") and output.err.count("v100-01: ") == 1


def test_a_job_that_fails_alike_is_shown_once(world: World, capsys: Capture) -> None:
    world.outcome = Outcome(ok=False, problems=("v100-02: no torch",))
    assert world.onboard(NEW) == 1
    output = capsys.readouterr()
    assert output.out.count("no torch") == 1 and "v100-01 and v100-02: the same" in output.err
    assert "v100-02: found verify with a100-01, v100-01: v100-02: no torch\n" in output.err
    assert "\ngpu-node: v100-02: found it is a member; only" in output.err


def test_an_only_node_is_not_called_proved(world: World, capsys: Capture) -> None:
    alone = [line for line in CLUSTER.splitlines(True) if "-01" not in line]
    world.site.file.write_text("".join(alone))
    world.kinds = {NEW.name: "ok"}
    assert world.onboard(NEW) == 0
    output = capsys.readouterr()
    assert "v100-02: a member; no job proved it" in output.out and "== verify" not in output.err


@pytest.mark.parametrize("many", [False, True])
def test_a_begun_one_that_does_not_let_us_in(
    world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Nothing is deployed for it."""

    def refuse(*_: object) -> bool:
        raise Stopped("its sshd accepts no key of this machine")

    monkeypatch.setattr(Admission, "let_in_again", refuse)
    assert world.onboard(*([NEW, MEMBER] if many else [NEW])) == 1
    assert world.calls == []
    assert capsys.readouterr().err.count("accepts no key of this machine") == 1 + many
