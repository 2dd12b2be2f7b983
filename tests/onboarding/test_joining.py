"""Joining: what a stage that fails leaves for the next run, and what a newcomer lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.engine.compare import Difference
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.subject import Thing, about_one
from gpu_node.drift.report.model import HostReport, Report, Summary, Tool
from gpu_node.inventories.connection.sudo import SudoPassword
from gpu_node.onboarding import joining, journal
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.joining import Joining, lacks
from gpu_node.onboarding.journal import Journal
from gpu_node.verify.outcome import Outcome

CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: known_hosts, known_hosts: known_hosts, mesh: true}}
groups: {v100: {}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}
  v100-02: {address: 192.0.2.12, group: v100}
  v100-03: {address: 192.0.2.13, group: v100}
"""
NEW = "v100-02"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An inventory that has the newcomer already."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "site.yml").write_text(CLUSTER)
    (tmp_path / "site.py").write_text("")
    return site_of(str(tmp_path / "site.yml"))


class Runs:
    """The runs of pyinfra, of which some fail."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.done = failing, list[dict[str, str]]()

    def __call__(self, site: Site, deploy: Path, **data: str) -> None:
        self.done.append(data)
        if any(each in data for each in self.failing):
            raise Stopped("pyinfra ended with 1")


def report(status: str = "ok", *apart: Difference, down: bool = False) -> Report:
    """A report of three nodes, in which the newcomer has this status, and one may be down."""
    counts = {"hosts": 3, "ok": 3, "drift": 0, "unreachable": 0, "unreadable": 0}
    silent = HostReport(status="unreachable", error="no answer")
    hosts = {
        "a100-01": silent if down else HostReport(status="ok"),
        "v100-03": HostReport(status="ok"),
    }
    return Report(
        tool=Tool(name="gpu-node", version="0"),
        inventory="site.py",
        generated="2026-01-01T00:00:00+00:00",
        hosts={**hosts, NEW: HostReport(status=status)},  # type: ignore[arg-type]
        differences=list(apart),
        summary=Summary(**counts, findings={}),
    )


def begun(site: Site, name: str = NEW) -> Journal:
    made = Journal(name=name, address="192.0.2.12", user="root", port=22)
    journal.write(site, made)
    return made


def join(
    site: Site, runs: Runs, seen: Report, *outcomes: Outcome
) -> tuple[dict[str, list[str]], list[Sequence[str]]]:
    """Have the newcomer join; return what it lacks, and the jobs."""
    jobs: list[Sequence[str]] = []
    remaining = iter(outcomes or [Outcome(ok=True)])

    def verify(site: Site, names: Sequence[str]) -> Outcome:
        jobs.append(names)
        return next(remaining)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "pyinfra", runs)
        return Joining(site, [NEW], UserConsole()).join(lambda _: seen, verify), jobs


AWAITED = (
    f"a100-01 is unreachable, and only the checks between it and {NEW} are missing; next: run "
    "this again when it answers"
)
MISSING = "it is a member; only the proof is missing; next: run this again, or --verify no"
NEXT = "; next: do what the output above names, then run this again"


def test_all_well(site: Site) -> None:
    """The others are changed in what the mesh is, and in nothing else; the journal is closed."""
    begun(site)
    runs = Runs()
    assert join(site, runs, report()) == ({NEW: []}, [["a100-01", NEW]])
    assert runs.done == [{"areas": "ssh"}, {"change": NEW}]
    assert journal.read(site, NEW) is None


def test_a_node_that_only_launches_runs_no_job(site: Site) -> None:
    """Neither as the newcomer, nor beside one."""
    seen = report()
    for name, jobs in {NEW: [], "a100-01": [["v100-03", NEW]]}.items():
        begun(site)
        hosts = {**seen.hosts, name: seen.hosts[name].model_copy(update={"runs_jobs": False})}
        part = seen.model_copy(update={"hosts": hosts})
        assert join(site, Runs(), part) == ({NEW: []}, jobs)


def test_a_node_that_is_down_leaves_it_half_way(site: Site) -> None:
    """The newcomer is deployed all the same, and is not reported as proved."""
    begun(site)
    lacking, jobs = join(site, Runs("areas"), report(down=True))
    assert lacking[NEW] == [f"report: {AWAITED}"]
    assert jobs == []
    runs = Runs()
    assert join(site, runs, report())[0] == {NEW: []}
    assert runs.done == [{"areas": "ssh"}, {"change": NEW}]


def test_what_fails_elsewhere_is_not_the_newcomers(site: Site) -> None:
    """The report is what counts: by it the newcomer is right, although the run ended with 1."""
    begun(site)
    assert join(site, Runs("areas", "change"), report()) == ({NEW: []}, [["a100-01", NEW]])


def drifting(rule: str, subject: str) -> HostReport:
    """A node of which one thing is wrong."""
    words: dict[str, Any] = dict.fromkeys(("wanted", "cause", "fix"), "x")
    finding = Finding(
        rule=rule,
        severity="error",
        subject=subject,
        found="exit 255",
        fixable=True,
        step=rule.split(".")[0],
        about=about_one("itself", subject) if rule == "ssh.no-login" else Thing(subject),
        **words,
    )
    return HostReport(status="drift", findings=[finding])


def test_only_what_a_node_that_is_down_was_to_do_is_missing(site: Site) -> None:
    """Logins to it fail, and so do the deploys: that node is the reason that is given."""
    begun(site)
    seen = report(down=True)
    seen.hosts[NEW] = drifting("ssh.no-login", "a100-01")
    lacking, jobs = join(site, Runs("areas", "change"), seen)
    assert lacking[NEW] == [f"report: {AWAITED}"] and jobs == []


@pytest.mark.parametrize(
    "own", [drifting("ssh.no-login", "v100-03"), drifting("shm.size", "a100-01")]
)
def test_other_drift_is_reported_beside_it(site: Site, own: HostReport) -> None:
    """A login to a node that answers, and drift of its own whatever its subject is called."""
    begun(site)
    seen = report(down=True)
    seen.hosts[NEW] = own
    assert join(site, Runs("change"), seen)[0][NEW] == [
        "deploy: pyinfra ended with 1",
        "report: it has drift, see above",
        f"report: not compared with a100-01, which is unreachable{NEXT}",
    ]


def test_two_unreachable_nodes_are_one_reason() -> None:
    seen = report(down=True)
    seen.hosts["v100-03"] = seen.hosts["a100-01"]
    assert lacks(seen, NEW) == [
        f"a100-01 and v100-03 are unreachable, and only the checks between them and {NEW} are "
        "missing; next: run this again when they answer"
    ]


def test_what_another_node_says_of_it_counts(site: Site) -> None:
    begun(site)
    seen = report()
    seen.hosts["v100-03"] = drifting("ssh.no-login", NEW)
    assert join(site, Runs(), seen)[0] == {NEW: [f"report: v100-03: ssh.no-login: exit 255{NEXT}"]}


def test_a_second_run_repeats_all_stages(site: Site) -> None:
    """After Ctrl-C or drift: the stages are idempotent, so nothing records how far it came."""
    begun(site)
    runs = Runs()
    assert join(site, runs, report("drift"))[0] == {NEW: [f"report: it has drift, see above{NEXT}"]}
    assert journal.read(site, NEW) is not None
    assert join(site, runs, report())[0] == {NEW: []}
    assert runs.done == [{"areas": "ssh"}, {"change": NEW}] * 2
    assert journal.read(site, NEW) is None


def test_drift_and_a_job_that_fails_are_lacking(site: Site) -> None:
    begun(site)
    lacking, jobs = join(site, Runs(), report("drift"))
    assert lacking == {NEW: [f"report: it has drift, see above{NEXT}"]} and jobs == []
    bad = Outcome(ok=False, how="torchrun", problems=("rank 1 never connected",))
    lacking, jobs = join(site, Runs(), report(), bad)
    assert lacking == {NEW: ["verify with a100-01: rank 1 never connected", MISSING]}
    assert journal.read(site, NEW) is not None


def test_where_only_the_proof_is_missing_the_job_runs_again(site: Site) -> None:
    begun(site)
    bad = Outcome(ok=False, how="torchrun", problems=("rank 1 never connected",))
    join(site, Runs(), report(), bad)
    lacking, jobs = join(site, Runs(), report())
    assert (lacking, len(jobs)) == ({NEW: []}, 1)


def test_the_same_failure_with_each_node_is_one_reason(site: Site) -> None:
    """It is the newcomer's own then: a third node would not tell more."""
    begun(site)
    bad = Outcome(ok=False, problems=("v100-02: /opt/env/bin/python has no torch",))
    lacking, jobs = join(site, Runs(), report(), bad, bad)
    why = "verify with a100-01, v100-03: v100-02: /opt/env/bin/python has no torch"
    assert lacking == {NEW: [why, MISSING]}
    assert jobs == [["a100-01", NEW], ["v100-03", NEW]]


def test_stages_with_the_same_error_are_one_reason(site: Site) -> None:
    begun(site)
    lacking, _ = join(site, Runs("areas", "change"), report("drift"))
    assert lacking == {
        NEW: ["mesh, deploy: pyinfra ended with 1", f"report: it has drift, see above{NEXT}"]
    }


def test_no_job_has_no_heading(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither where none was asked for, nor where no server is left to prove."""
    begun(site)
    join(site, Runs(), report("drift"))
    assert "== report" in (output := capsys.readouterr().err) and "== verify" not in output
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "pyinfra", Runs())
        begun(site)
        Joining(site, [NEW], UserConsole()).join(lambda _: report(), None)
    assert "== report" in (output := capsys.readouterr().err) and "== verify" not in output


def test_the_stages_of_a_server(site: Site) -> None:
    """No environment is copied in this inventory, and the job is optional."""
    assert joining.stages_of(site, NEW, True) == ["mesh", "deploy", "report", "verify"]
    assert joining.stages_of(site, NEW, False) == ["mesh", "deploy", "report"]


def test_a_busy_node_leaves_the_job_to_the_next(site: Site) -> None:
    begun(site)
    busy = Outcome(ok=False, problems=("GPUs are held by pid 7",))
    lacking, jobs = join(site, Runs(), report(), busy, Outcome(ok=True))
    assert lacking == {NEW: []} and jobs == [["a100-01", NEW], ["v100-03", NEW]]


@pytest.mark.parametrize(
    ("values", "is_lacking"),
    [
        ({"a100-01": "1", NEW: "2", "v100-03": "1"}, True),
        ({"a100-01": "1", NEW: "2"}, True),
        ({"a100-01": "2", NEW: "1", "v100-03": "1"}, False),
        ({"a100-01": "1", "v100-03": "2"}, False),
    ],
)
def test_what_differs_from_all_others_is_the_newcomers(
    values: dict[str, str], is_lacking: bool
) -> None:
    data: dict[str, Any] = {"fact": "nccl.torch", "class": "must-equal", "drift": True}
    apart = Difference.model_validate({**data, "values": values})
    assert bool(lacks(report("ok", apart), NEW)) is is_lacking


def test_an_unreadable_newcomer_is_no_member() -> None:
    assert lacks(report("unreadable"), NEW) == ["it is unreadable, see above"]


def differing(values: dict[str, str] | None = None, *, drift: bool = True) -> Difference:
    """A value of v100-02 that differs from the others'."""
    given = {"a100-01": "8G", "v100-03": "8G", NEW: "4G"}
    data: dict[str, Any] = {"fact": "shm.size", "class": "must-equal", "drift": drift}
    return Difference.model_validate({**data, "values": given | (values or {})})


def minor(subject: str) -> HostReport:
    """A failed login that is only worth a note."""
    host = drifting("ssh.no-login", subject)
    notes = [each.model_copy(update={"severity": "info"}) for each in host.findings]
    return host.model_copy(update={"findings": notes})


def warned() -> HostReport:
    """A warning that no deploy repairs."""
    host = drifting("limits.nproc", "alice")
    changed = {"severity": "warning", "fixable": False}
    return host.model_copy(
        update={"findings": [each.model_copy(update=changed) for each in host.findings]}
    )


DOWN = HostReport(status="unreachable", error="no answer")
GARBAGE = HostReport(status="unreadable", error="not understood")
SPLIT: dict[str, tuple[dict[str, HostReport], list[Difference], list[str]]] = {
    "nothing": ({}, [], []),
    "its error, as it does not answer": ({NEW: DOWN}, [], ["no answer"]),
    "its error, as it is not understood": ({NEW: GARBAGE}, [], ["not understood"]),
    "its drift": ({NEW: drifting("shm.size", "8G")}, [], ["it has drift, see above"]),
    "drift about a node that answers": (
        {NEW: drifting("ssh.no-login", "v100-03")},
        [],
        ["it has drift, see above"],
    ),
    "drift about a node that is down": (
        {NEW: drifting("ssh.no-login", "a100-01"), "a100-01": DOWN},
        [],
        [AWAITED],
    ),
    "drift of another area, of that name": (
        {NEW: drifting("shm.size", "a100-01"), "a100-01": DOWN},
        [],
        ["it has drift, see above", "not compared with a100-01, which is unreachable"],
    ),
    "drift that only notes are the reason of": (
        {NEW: minor("a100-01"), "a100-01": DOWN},
        [],
        ["it has drift, see above", "not compared with a100-01, which is unreachable"],
    ),
    "a warning of its own": (
        {NEW: warned(), "a100-01": warned()},
        [],
        ["it has drift, see above"],
    ),
    "a warning that all have": (
        {NEW: warned(), "a100-01": warned(), "v100-03": warned()},
        [],
        [],
    ),
    "an error that all have": (
        dict.fromkeys((NEW, "a100-01", "v100-03"), drifting("shm.size", "8G")),
        [],
        ["it has drift, see above"],
    ),
    "a value of its own": ({}, [differing()], ["shm.size differs from the others': 4G"]),
    "a value that may differ": ({}, [differing(drift=False)], []),
    "a value that another node has": ({}, [differing({"a100-01": "4G"})], []),
    "another node's drift": ({"v100-03": drifting("shm.size", NEW)}, [], []),
    "another node's login to it": (
        {"v100-03": drifting("ssh.no-login", NEW)},
        [],
        ["v100-03: ssh.no-login: exit 255"],
    ),
    "another node's login to a third": ({"v100-03": drifting("ssh.no-login", "a100-01")}, [], []),
    "an unreadable node": (
        {"v100-03": GARBAGE},
        [],
        ["not compared with v100-03, which is unreadable"],
    ),
    "an unreadable node beside one that is down": (
        {"v100-03": GARBAGE, "a100-01": DOWN},
        [],
        [
            "not compared with v100-03, which is unreadable",
            "not compared with a100-01, which is unreachable",
        ],
    ),
    "a value beside a node that is down": (
        {"a100-01": DOWN},
        [differing()],
        [
            "shm.size differs from the others': 4G",
            "not compared with a100-01, which is unreachable",
        ],
    ),
}


@pytest.mark.parametrize(("hosts", "apart", "lacking"), SPLIT.values(), ids=SPLIT)
def test_what_a_newcomer_lacks(
    hosts: dict[str, HostReport], apart: list[Difference], lacking: list[str]
) -> None:
    """Its own faults, those of others with it, and what waits for a node are kept apart."""
    seen = report("ok", *apart)
    seen.hosts.update(hosts)
    assert lacks(seen, NEW) == lacking


def test_newcomers_are_no_measure_for_each_other() -> None:
    """Two that are wrong in the same way are both wrong."""
    seen = report("ok", differing({"v100-03": "4G"}))
    assert lacks(seen, NEW) == []
    assert lacks(seen, NEW, [NEW, "v100-03"]) == ["shm.size differs from the others': 4G"]


def test_a_wrong_password_of_sudo_ends_before_the_first_stage(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage would try it anew, and a third attempt can lock an account."""
    runs = Runs()
    monkeypatch.setattr(joining, "pyinfra", runs)
    monkeypatch.setattr(joining, "SUDO", sudo := SudoPassword())
    sudo.give("wrong")

    def look(_: Site) -> Report:
        raise Stopped("sudo refuses this password")

    with pytest.raises(Stopped, match="refuses"):
        Joining(site, [NEW], UserConsole()).join(look, None)
    assert runs.done == []
