"""Whether a job can start: the last line of a report, and the nodes that it counts."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.drift.report.formats import Page, plain
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.prometheus import parts
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.start import start
from gpu_node.drift.report.view import Line, View
from tests.drift import clusters, reports, states
from tests.drift.reports import GONE, HANGS, concise, report
from tests.drift.test_outline import EMPTY

TRAINS: dict[str, Any] = {"nccl": {"environments": {"/opt/dis": {}}}}
FRESH = {**TRAINS, **reports.FRESH}
ROOTLESS: dict[str, Any] = {
    **TRAINS,
    "driver": {"smi": None},
    "unreadable": [{"area": "driver", "section": "driver.smi", "reason": "no answer within 5 s"}],
}
WISHES: dict[str, Any] = {
    **TRAINS,
    "shm": {"usage": {"size": 6 << 30}},
    "limits": {
        "session": {
            "nofile": {"soft": 20000, "hard": 20000},
            "memlock": {"soft": 8 << 20, "hard": 8 << 20},
        },
        "files": [],
    },
}
UNCLEAR: dict[str, Any] = {"environments": {"/opt/dis": {"twice": ["torch 2.1.2", "torch 2.2.0"]}}}
LOW: dict[str, Any] = {**TRAINS, **reports.WARNING}


def answer(report: Report) -> Line:
    """Return the last line of a report."""
    (line,) = View(report).answer
    return line


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        pytest.param({"a": TRAINS, "b": TRAINS}, "2 of 2 nodes", id="all"),
        pytest.param({"a": TRAINS}, "1 of 1 node", id="one"),
        pytest.param({"a": LOW}, "1 of 1 node", id="a warning stops none"),
        pytest.param(
            {"a": TRAINS, "b": FRESH},
            "1 of 2 nodes; stopped by: shm.too-small (b)",
            id="of one node",
        ),
        pytest.param(
            {"a": FRESH, "b": FRESH},
            "0 of 2 nodes; stopped by: shm.too-small",
            id="of all nodes",
        ),
        pytest.param({"a": WISHES, "b": TRAINS}, "2 of 2 nodes", id="less than wished"),
        pytest.param(
            {"a": {**TRAINS, "nccl": UNCLEAR}},
            "0 of 1 node; unknown: nccl.environment-unclear",
            id="what is not judged",
        ),
        pytest.param(
            {"a": TRAINS, "b": EMPTY},
            "1 of 2 nodes; stopped by: no GPU (b)",
            id="no GPU",
        ),
        pytest.param(
            {"a": TRAINS, "b": ROOTLESS},
            "1 of 2 nodes; unknown: driver.unreadable (b)",
            id="unread",
        ),
        pytest.param(
            {"a": {**TRAINS, **HANGS}, "b": {}},
            "0 of 2 nodes; unknown: toolchain.unreadable (a), no PyTorch found (b)",
            id="no PyTorch",
        ),
    ],
)
def test_the_last_line(nodes: dict[str, Any], words: str) -> None:
    """The problems are those of the lines above it, each with its nodes where they are not all."""
    off = {"nccl.environment-missing": False, "driver.gpu-differs": False}
    seen = {name: states.seen(change, checks=off) for name, change in nodes.items()}
    assert concise(seen, 200).splitlines()[-1] == f"A job can start on {words}"


def test_a_node_without_an_answer_is_unknown() -> None:
    text = concise({"a": states.seen(TRAINS), "b": GONE}, 200)
    assert text.splitlines()[-1] == "A job can start on 1 of 2 nodes; unknown: unreachable (b)"
    assert answer(report({"a": states.seen(TRAINS), "b": GONE})).style == "bold"


def test_a_machine_without_a_gpu_is_named_once() -> None:
    """With an exit code that says so, where the inventory has no word on GPUs."""
    change = {"like": "new_with_a_v100", "driver": {"devices": []}}
    nothing = {key: None for key in states.BASE["wanted"] if key != "address"}
    whole = report({"n": Seen(states.wanted(nothing), states.state(change))})
    assert answer(whole).words == "A job can start on 0 of 1 node; stopped by: driver.no-gpu"
    assert whole.exit_code() == 2


def test_a_container_that_was_given_no_gpu_is_stopped() -> None:
    """It sees those of its host on the PCI bus, and no driver answers for them."""
    change = {**TRAINS, "like": "new_with_a_v100", "shm": {"container": {"kind": "docker"}}}
    nothing = {key: None for key in states.BASE["wanted"] if key != "address"}
    whole = report({"n": Seen(states.wanted(nothing), states.state(change))})
    assert whole.hosts["n"].findings == []
    assert answer(whole).words == "A job can start on 0 of 1 node; stopped by: no GPU answers"
    assert "1 ok: no problems in what was judged; no GPU answers" in concise(
        {"n": Seen(states.wanted(nothing), states.state(change))}, 200
    )


def test_a_node_that_only_launches_is_not_counted() -> None:
    """Nor compared with the others in what jobs need, nor a reason why one cannot start."""
    login = Seen(states.wanted({"gpu_model": "none"}), states.state({**EMPTY, "shm": LOW["shm"]}))
    whole = report({"login": login, "a": states.seen(TRAINS), "b": states.seen(TRAINS)})
    assert answer(whole).words == "A job can start on 2 of 2 nodes"
    assert (whole.hosts["login"].findings, whole.exit_code()) == ([], 0)
    assert answer(report({"login": login})).words == "No node is for jobs (gpu: none)"
    text = concise({"login": login, "a": states.seen(TRAINS)}, 200)
    assert "login: not for jobs (gpu: none)" in text and "no GPU was found" not in text
    gone = Seen(login.wanted, error="Could not connect", reached=False)
    assert answer(report({"login": gone, "a": states.seen(TRAINS)})).words.endswith("1 of 1 node")
    metrics = "".join(parts(View(whole), Page(plain())))
    assert 'node_job_can_start{inventory="inventories/lab.py",node="a"}' in metrics
    assert 'node_job_can_start{inventory="inventories/lab.py",node="login"}' not in metrics


def test_a_login_that_fails_stops_a_job_of_several_nodes() -> None:
    """Not where the other node was not read: the job can do without it."""
    found = clusters.Cluster(2, links={(0, 1): "silent"}).findings()
    whole = report({name: states.seen(TRAINS) for name in found})
    hosts = {
        name: host.model_copy(update={"findings": found[name]})
        for name, host in whole.hosts.items()
    }
    failing = whole.model_copy(update={"hosts": hosts})
    assert list(start(failing).stopped) == ["ssh.no-login"]
    gone = hosts["n001"].model_copy(update={"error": "no answer", "findings": []})
    apart = whole.model_copy(update={"hosts": {**hosts, "n001": gone}})
    assert (start(apart).nodes, start(apart).stopped) == (("n000",), {})


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("deepspeed", "; not from n000 (gpu: none): ssh.no-login"),
        ("mpirun", "; not from n000 (gpu: none): ssh.no-login"),
        ("torchrun", ""),
        (None, ""),
    ],
)
def test_a_node_that_launches_and_cannot_log_in(kind: str | None, words: str) -> None:
    """The last line names it, where its launcher of the inventory logs in to the nodes."""
    found = clusters.Cluster(3, links={(0, 1): "silent"}).findings()
    launching = states.seen(gpu_model="none", launcher_kind=kind)
    seen = {"n000": launching, "n001": states.seen(TRAINS)}
    whole = report({**seen, "n002": states.seen(TRAINS)})
    first = whole.hosts["n000"].model_copy(update={"findings": found["n000"]})
    failing = whole.model_copy(update={"hosts": {**whole.hosts, "n000": first}})
    assert answer(failing).words == f"A job can start on 2 of 2 nodes{words}"
    gone = whole.hosts["n001"].model_copy(update={"error": "no answer", "findings": []})
    apart = failing.model_copy(update={"hosts": {**failing.hosts, "n001": gone}})
    assert "not from" not in answer(apart).words


def test_it_is_a_metric() -> None:
    made = report({"a": states.seen(TRAINS), "b": states.seen(FRESH)})
    text = "".join(parts(View(made), Page(plain())))
    assert 'node_job_can_start{inventory="inventories/lab.py",node="a"} 1\n' in text
    assert 'node_job_can_start{inventory="inventories/lab.py",node="b"} 0\n' in text


def test_a_report_of_no_node_does_not_answer() -> None:
    empty: Report = report({})
    assert "A job can start" not in concise({}, 80) and start(empty).nodes == ()
