"""The plan: which findings make a run change a node."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.driver import step as driver
from gpu_node.deploy.driver.step import reboots, reloads
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.planning import changes, wanted_of
from gpu_node.deploy.ssh import step as mesh
from gpu_node.drift.driver.rules_gpus import unsupported_gpu
from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.nodes import Judged
from gpu_node.drift.ssh import rules_mesh
from gpu_node.facts.ssh.mesh import HOSTS
from gpu_node.inventories.connection.names import INVENTORY
from tests.drift import states

DROP = "/etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf"


@pytest.mark.parametrize("allow", [False, True])
def test_a_unit_that_waits_is_read_where_that_is_allowed(allow: bool) -> None:
    """Until then the finding is for information, and the run changes nothing."""
    found = states.state({"driver": {"waiting": [DROP]}})
    wanted = states.wanted({"driver_persistence": True})
    findings = tuple(check(found, wanted))
    assert [each.rule for each in findings] == ["driver.unit-waits"]
    plan = Plan(wanted, found, findings, states.nodes(), allow_disruption=allow)
    assert (reloads(plan), changes(plan)) == (allow, allow)


def test_a_node_without_the_training_user_has_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """No home is needed for /etc/hosts."""
    around = states.nodes({})
    names: dict[str, Any] = {
        "account": None,
        "names": {"names": {"v100-01": []}},
        "hosts": {"block": {"lines": []}},
    }
    found, wanted = states.state(states.meshed({"ssh": names})), states.wanted()
    plan = Plan(wanted, found, tuple(check(found, wanted, around)), around)
    assert plan.repairs(rules_mesh.name_unresolved)
    written = MagicMock()
    monkeypatch.setattr(mesh, "ssh", written)
    monkeypatch.setattr(mesh, "apart", lambda host, path: nullcontext())
    mesh.converge._inner(plan)
    (call,) = written.lines.call_args_list
    assert call.kwargs["path"] == HOSTS and "v100-01" in call.kwargs["wanted"]


V100 = {"name": "Tesla V100-PCIE-32GB", "memory": 32768, "capability": "7.0"}
# A driver that no longer supports the GPU, and a module that cannot be loaded.
TOO_NEW = {
    "driver": {
        "library": "590.10.01",
        "loaded": {"nvidia": "535.154.05"},
        "smi": {"gpus": [V100] * 2},
    }
}
LATER = {"until": "9999-12-31", "reason": "after the deadline"}
OFF: list[dict[str, object]] = [
    {},
    {"driver.unsupported-gpu": False},
    {"driver": False, "driver.library-mismatch": True},
    {"driver.unsupported-gpu": LATER},
    {"driver": LATER, "driver.library-mismatch": True},
]
OFF_BY = ["on", "a rule", "an area", "a rule until a day", "an area until a day"]


@pytest.mark.parametrize("checks", OFF, ids=OFF_BY)
def test_what_is_turned_off_is_a_guard_all_the_same(checks: dict[str, object]) -> None:
    """It is not reported, and neither the driver step nor a reboot goes on."""
    found = states.state(TOO_NEW)
    wanted = states.wanted({"gpu_model": "V100", "driver_version": "590", "checks": checks})
    judgement = judge({"n": Judged(found, wanted, states.nodes())})
    findings, muted = tuple(judgement.findings["n"]), tuple(judgement.muted.get("n", ()))
    reported = [each.rule for each in findings]
    assert ("driver.unsupported-gpu" in reported) == (not checks)
    assert "driver.library-mismatch" in reported
    plan = Plan(wanted, found, findings, states.nodes(), reboot=True, muted=muted)
    assert plan.guards(unsupported_gpu)
    assert driver._is_refused(plan)
    assert not reboots(plan)


def test_no_step_reads_what_the_inventory_turns_off() -> None:
    """Whether a process uses a GPU or a file is asked on the node; only allow_disruption counts."""
    read = [
        path.name
        for path in Path(driver.__file__).parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "checks"
    ]
    assert read == []


UNSIGNED = {"driver": {"loaded": {"nvidia": "470.10.01"}, "secure_boot": {"state": "on"}}}


@pytest.mark.parametrize("off", [True, False, LATER], ids=["on", "off", "until a day"])
def test_secure_boot_bars_a_reboot_all_the_same(off: object) -> None:
    """The kernel would load no module after it; without Secure Boot the node is rebooted."""
    wanted = states.wanted({"checks": {"driver.secure-boot": off}})
    plans = []
    for found in (UNSIGNED, {"driver": {"loaded": {"nvidia": "470.10.01"}}}):
        judged = judge({"n": Judged(states.state(found), wanted, states.nodes())})
        both = judged.findings["n"], judged.muted["n"]
        findings, muted = (tuple(each) for each in both)
        plans.append(
            Plan(wanted, states.state(found), findings, states.nodes(), reboot=True, muted=muted)
        )
    assert [reboots(plan) for plan in plans] == [False, True]
    assert any(each.rule == "driver.secure-boot" for each in plans[0].muted) is (off is not True)


@pytest.mark.parametrize("off", [False, LATER], ids=["off", "until a day"])
def test_what_is_turned_off_is_not_repaired(off: object) -> None:
    """A run changes nothing because of it."""
    found = states.state({"shm": {"usage": {"size": 67108864}}})
    wanted = states.wanted({"checks": {"shm": off}})
    judgement = judge({"n": Judged(found, wanted, states.nodes())})
    muted = tuple(judgement.muted["n"])
    assert [each.rule for each in muted] == ["shm.too-small"]
    plan = Plan(wanted, found, tuple(judgement.findings["n"]), states.nodes(), muted=muted)
    assert not changes(plan) and not plan.findings


@pytest.mark.parametrize("is_named", [True, False])
def test_a_wrong_value_has_the_place_where_it_is_set(tmp_path: Path, is_named: bool) -> None:
    """That of pyinfra's group data here; a host of no cluster file has its name alone."""
    (tmp_path / "group_data").mkdir()
    file = tmp_path / "group_data" / "v100.py"
    file.write_text("shm_size = '8GB'\n")
    data = {"shm_size": "8GB", **({INVENTORY: str(tmp_path / "site.yml")} if is_named else {})}
    host = MagicMock(groups=["v100"], data=MagicMock(get=data.get, dict=lambda: data))
    host.name = "v100-01"
    with pytest.raises(PyinfraError) as error:
        wanted_of(host)
    place = f"{file}:1: " if is_named else ""
    assert str(error.value).startswith(f"{place}v100-01: shm_size: found '8GB'; ")
