"""What fits all nodes: each case of fit.yml, and how the answer is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.driver.target import branches
from gpu_node.drift.fit import as_json, shown
from gpu_node.drift.fit.choices import wheels
from gpu_node.drift.fit.solve import Fit, fit, label
from gpu_node.drift.report.formats import plain, printed
from gpu_node.drift.report.seen import Seen
from tests import case_files
from tests.case_files import Case
from tests.drift import states

CASES = case_files.parse("fit", (Path(__file__).parent / "fit.yml").read_text())
DEVICES = states.BASE["found"]["driver"]["devices"]
SYSTEMS: Mapping[str, tuple[str, str, str, str]] = {
    "centos7": ("CentOS Linux 7 (Core)", "3.10.0-1160.el7.x86_64", "x86_64", "2.17"),
    "ubuntu": ("Ubuntu 22.04.5 LTS", "5.15.0-91-generic", "x86_64", "2.35"),
    "grace": ("Ubuntu 24.04.1 LTS", "6.8.0-1021-nvidia-64k", "aarch64", "2.39"),
}


def node(given: Mapping[str, Any]) -> Seen:
    """Return what came back from a node of a case."""
    if "error" in given:
        return Seen(states.wanted(), error=given["error"], reached=False)
    change: Any = {}
    if "gpus" in given:
        gpus = [{"name": name} for name in given["gpus"]]
        change = {"driver": {"smi": {"gpus": gpus}, "devices": DEVICES[: len(gpus)]}}
    if "system" in given:
        name, kernel, machine, glibc = SYSTEMS[given["system"]]
        platform = {"machine": machine, "glibc": glibc}
        of_system = {"toolchain": {"os": name, "kernel": kernel, "platform": platform}}
        loaded = {"nvidia": given["driver"], "is_open": given.get("open", False)}
        of_driver = {"driver": {"library": given["driver"], "loaded": loaded}}
        change = case_files.merged(case_files.merged(change, of_system), of_driver)
    if "torch" in given:
        version, cuda = given["torch"]
        torch = {"version": version, "cuda": cuda, "architectures": given.get("kernels")}
        of_torch = {"nccl": {"environments": {"/opt/e": {"torch": torch}}}}
        change = case_files.merged(change, of_torch)
    whole: Any = case_files.merged(change, given.get("change", {}))
    return states.seen(whole, **given.get("inventory", {}))


def solved(case: Case) -> Fit:
    return fit({name: node(each) for name, each in case.data["nodes"].items()})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case(case: Case) -> None:
    """The set, its changes, what fits, the unknown nodes and the exit code."""
    found, want = solved(case), case.data
    assert found.exit_code() == want["code"]
    assert {node.name: node.unknown for node in found.nodes if node.unknown} == want.get(
        "unknown", {}
    )
    if "set" in want:
        has = found.chosen and (found.chosen.driver.number, *_torch(found))
        assert has == (want["set"] and tuple(want["set"]))
    if "changes" in want:
        assert [[*each[:4]] for each in found.changes] == want["changes"]
    if "drivers" in want:
        assert [each.number for each in found.drivers] == want["drivers"]
    if "cuda" in want:
        assert found.cudas == want["cuda"]
    if "nccl" in want:
        assert found.nccls == want["nccl"]
    table = " ".join(printed(shown.render(found, "2026-06"), plain(width=200)).split())
    assert [text for text in want.get("shown", ()) if text not in table] == []
    if "newest" in want:
        assert found.wheels[-1].torch == want["newest"]


def _torch(found: Fit) -> tuple[str, str, str | None]:
    assert found.chosen is not None
    wheel = found.chosen.wheel
    return wheel.torch, wheel.cuda, wheel.nccl


@pytest.mark.parametrize("case", [each for each in CASES if "out" in each.data], ids=str)
def test_the_reasons(case: Case) -> None:
    """Each expected reason is there, with these values among its own, on exactly these nodes."""
    found = {(each.what, each.why): each for each in solved(case).ruled_out}
    for want in case.data["out"]:
        out = found[want["what"], want["why"]]
        assert {*want["values"]} <= {*out.values} and [*out.nodes] == want["nodes"], out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_fits_has_no_reason_against_it(case: Case) -> None:
    """And the other way round: each driver and each torch is one or the other."""
    found = solved(case)
    out = {(each.what, value) for each in found.ruled_out for value in each.values}
    fitting = {("driver", str(each.number)) for each in found.drivers}
    fitting |= {("torch", label(each)) for each in found.wheels}
    fitting |= {("cuda", each) for each in found.cudas} | {("nccl", each) for each in found.nccls}
    assert not fitting & out
    known = [node for node in found.nodes if not node.unknown]
    if known:
        every = {("driver", str(each.number)) for each in branches()}
        every |= {("torch", label(each)) for each in wheels(known)}
        assert every == {each for each in fitting | out if each[0] in ("driver", "torch")}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("width", [40, 100])
def test_it_is_written(case: Case, width: int) -> None:
    """For people it names each node and the reason why one is unknown; JSON has its sources."""
    found = solved(case)
    text = printed(shown.render(found, "2026-11-26"), plain(width=width))
    assert max(map(len, text.splitlines())) <= width
    if width == 100:
        assert all(node.name in text for node in found.nodes)
    written = json.loads(as_json.render(found, "site.py", {"name": "gpu-node"}, "now"))
    launching = {"gpu_model": "none"}
    assert [*written["nodes"]] == [
        name for name, each in case.data["nodes"].items() if each.get("inventory") != launching
    ]
    assert {each["table"] for each in written["ruled_out"]} == {*written["sources"]}
    assert all(written["sources"].values())


def test_a_branch_that_has_ended_is_marked() -> None:
    """By the month of today: the table has until when NVIDIA maintains it."""
    found = solved(next(each for each in CASES if each.name == "field_notes"))
    for today, words in {"2026-06": "maintained until 2026-06", "2026-07": "no longer"}.items():
        text = printed(shown.render(found, f"{today}-01"), plain(width=200))
        assert f"Set: driver 535 ({words}" in text
    assert "2 nodes: nothing to change." in text


def test_what_a_node_sends_is_made_visible() -> None:
    """An escape sequence in a name of its system is text."""
    change = {"toolchain": {"os": "C\x1b[31mOS"}}
    found = fit({"a": states.seen(change)})
    text = printed(shown.render(found, "2026-11"), plain(width=200))
    assert "\x1b" not in text and r"C\x1b[31mOS" in text
    assert "\x1b" not in as_json.render(found, "i", {}, "now")
