"""One hostile node: whatever bytes it sends, it is judged, and the others are as without it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ssh.logins import PUNISHED
from tests.drift import hostile, reports, states
from tests.drift.hostile import ASKED, NAME, ODD, PEERS
from tests.drift.reports import written
from tests.examples import examples

QUIET = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
WANTED = states.wanted(
    {
        "nccl_environments": [hostile.ENVIRONMENT],
        "nccl_packages": True,
        "driver_packages_apt": ["nvidia-driver-535"],
        "directories": [{"path": "/data", "mode": "755", "recursive": True}],
        "docker_default_shm_size": "8G",
        "docker_default_ulimits_memlock": "unlimited",
        "shm_remove_ipc": False,
        "workspace_path": "/srv/work",
        "workspace_source": "a100-01",
        "launcher_user": "train",
        "_sudo": True,
    }
)
GONE = Seen(WANTED, error="no answer to the probe within 90 s", nodes=PEERS)


@cache
def healthy() -> dict[str, Seen]:
    found = {"a100-01": states.state(states.MESH), **states.nodes().states}
    return {name: Seen(WANTED, each, nodes=PEERS) for name, each in found.items()}


def beside(other: Seen, first: bool = False) -> Report:
    nodes = healthy()
    return reports.report({NAME: other, **nodes} if first else {**nodes, NAME: other})


@cache
def without() -> dict[str, HostReport]:
    """What is reported of the healthy nodes where the hostile one gives no answer at all."""
    return others(beside(GONE))


def others(report: Report) -> dict[str, HostReport]:
    """What is reported of the healthy nodes, less what names the hostile one."""
    return {
        name: host.model_copy(
            update={
                "findings": [
                    each for each in host.findings if NAME not in json.dumps(each.model_dump())
                ],
                "judged": None,
            }
        )
        for name, host in report.hosts.items()
        if name != NAME
    }


def broken(host: HostReport, unread: Iterable[str]) -> list[str]:
    """The rules and facts that an answer breaks: bounds and types are checked when it is read.

    `unread` are the sections that were refused then: some have the name of a fact.
    """
    names = {*RULES, *(fact.name for fact in FACTS)} - {*unread}
    return [
        f"{each.subject}: {each.found}"
        for each in host.findings
        if each.subject in names and each.found.startswith("not understood: ")
    ]


def judge(change: dict[str, str]) -> Report:
    """Read, judge and write what a node with such an answer brings; the others stay as they are."""
    found = hostile.found(change)
    report = beside(Seen(WANTED, found, nodes=PEERS))
    assert others(report) == without()
    assert broken(report.hosts[NAME], (each.section for each in found.unreadable)) == []
    assert json.loads(written("json", report).encode())["hosts"].keys() == report.hosts.keys()
    return report


def test_the_honest_answer_is_read() -> None:
    """The control: every section has a usable answer."""
    assert {each.section: each.reason for each in hostile.found({}).unreadable} == {}
    judge({})


def test_a_section_of_nonsense_is_that_section() -> None:
    """The other sections of its node are read as before."""
    for text in ("", "\x00", "x", "1\t2\t3", "9" * 5000, "{}"):
        for section in (each.name for each in ASKED):
            unread = {each.section for each in hostile.found({section: text}).unreadable}
            assert unread <= {section}, (section, text)


def test_a_login_without_a_result_is_unreadable() -> None:
    """Whatever the node says instead; after a punished one by name none by address is tried."""
    honest = hostile.answers()["ssh.logins"][0].splitlines()
    punished = honest[0].replace(" 0 ", f" 255 {PUNISHED}")
    for lines, reason in {
        (): "no result of a100-01 by name, a100-01 by address, hostile-01 by name",
        (*honest[:3], *honest[4:]): "no result of a100-01 by address",
        ("untried 3", *honest[1:]): "no result of",
        ("pair nosuch name 0 ", *honest[1:]): "no result of",
        (honest[0].replace(" 0 ", " -"), *honest[1:]): "no time left for",
        ("pair  a -", *honest[1:]): "no result of",
        (punished, *(line for line in honest if line not in (honest[0], honest[1]))): "",
        tuple(honest): "",
    }.items():
        unread = hostile.found({"ssh.logins": "\n".join(lines)}).unreadable
        reasons = [each.reason for each in unread if each.section == "ssh.logins"]
        assert len(unread) == len(reasons) and bool(reasons) is bool(reason)
        assert reason in "".join(reasons)


@given(hostile.changes())
@example({"toolchain.kernel": "²"})  # a digit that is no number
@example({"toolchain.kernel": "9" * 5000})  # more digits than int takes
@example({"ssh.names": "\naddress a100-01 ?"})  # a line without a word
@QUIET
def test_no_bytes_end_a_report(change: dict[str, str]) -> None:
    """Nor change what is reported of others; the table can be drawn."""
    judge(change)
    assert reports.drawn({NAME: Seen(WANTED, hostile.found(change), nodes=PEERS)}, 120).encode()


@pytest.mark.parametrize("part", [1 / 3, pytest.param(5 / 6, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("section", [each.name for each in ASKED])
def test_odd_words_in_a_section_end_no_report(section: str, part: float) -> None:
    """One of its words, slow: another one; any others are tried above."""
    words = hostile._words(hostile.answers()[section][0])
    place, odd = divmod(int(len(words) * len(ODD) * part), len(ODD))
    judge({section: "".join([*words[:place], ODD[odd], *words[place + 1 :]])})


def test_a_hostile_node_at_the_head_is_no_other_than_at_the_end() -> None:
    """Nothing depends on who answers first."""
    seen = Seen(WANTED, hostile.found({"shm.size": "9" * 5000}), nodes=PEERS)
    assert others(beside(seen, first=True)) == others(beside(seen))
