"""The plan: which findings make a run change a node."""

from __future__ import annotations

import pytest

from gpu_node.deploy.engine.plan import Plan
from gpu_node.drift.engine.check import check
from tests.drift import states

DROP = "/etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf"


@pytest.mark.parametrize("allow", [False, True])
def test_a_unit_that_waits_is_read_where_that_is_allowed(allow: bool) -> None:
    """Until then the finding is for information, and the run changes nothing."""
    found = states.found({"driver": {"waiting": [DROP]}})
    wanted = states.wanted({"driver_persistence": True})
    findings = tuple(check(found, wanted))
    assert [each.rule for each in findings] == ["driver.unit-waits"]
    plan = Plan(wanted, found, findings, states.among(), allow_disruption=allow)
    assert (plan.reloads, plan.changes) == (allow, allow)
