"""The order of the driver's operations: what loads first, and what nodes do at the same time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpu_node.deploy.driver import step
from gpu_node.deploy.engine.plan import Plan
from gpu_node.drift.engine.check import check
from gpu_node.facts.node import NodeState
from tests.drift import states

OLD, NEW = "3.10.0-957.el7.x86_64", "3.10.0-1160.el7.x86_64"
_MODULE = {"file": "/lib/modules/K/extra/nvidia.ko", "version": "535.154.05"}
BUILT = {**_MODULE, "license": "NVIDIA", "signer": ""}
BOOT = states.BASE["found"]["driver"]["boot"]
DOWN = {
    "loaded": {"nvidia": ""},
    "smi": {"code": 9, "gpus": [], "output": "NVIDIA-SMI has failed"},
}


class Recorder:
    """In place of the operations: each with the kernel it is about, and where step.py calls it.

    `ends` has, of each, the subject that a failure ends; `whole` of one that any failure ends.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str, tuple[int, ...]]] = []
        self.ends: list[tuple[str, str]] = []
        self._subject = ""
        monkeypatch.setattr(step, "driver", self)
        monkeypatch.setattr(step, "apart", lambda _, subject: self._within(subject))
        monkeypatch.setattr(step, "whole", lambda _: self._within("whole"))

    @contextmanager
    def _within(self, subject: str) -> Iterator[None]:
        before, self._subject = self._subject, subject
        yield
        self._subject = before

    def __getattr__(self, name: str) -> Any:
        def note(**given: Any) -> None:
            kernel = given.get("kernel") or next(iter(given.get("kernels", ())), "")
            self.calls.append((name, kernel, tuple(self._lines())))
            self.ends.append((name, self._subject))

        return note

    @staticmethod
    def _lines() -> list[int]:
        frame, lines = sys._getframe(2), []
        while frame.f_back is not None and frame.f_code.co_filename == step.__file__:
            lines.append(frame.f_lineno)
            frame = frame.f_back
        return lines


def recorded(
    monkeypatch: pytest.MonkeyPatch, running: str, modules: dict[str, Any], more: dict[str, Any]
) -> Recorder:
    """What the step does for a node with these kernels, both of which may boot."""
    installed = [
        {"name": name, "headers": True, "image": True, "module": module}
        for name, module in modules.items()
    ]
    driver = {
        "kernels": {"running": running, "installed": installed},
        "dkms": {"builds": []},
        "boot": {**BOOT, "grubby": f"/boot/vmlinuz-{NEW}"},
        **more,
    }
    found, wanted = states.state({"driver": driver}), states.wanted({})
    plan = Plan(wanted, found, tuple(check(found, wanted)), states.nodes())
    recorder = Recorder(monkeypatch)
    step.converge._inner(plan)
    step.rest._inner(plan)
    return recorder


def test_all_kernels_are_built_before_one_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fails ends no other and, but for the running kernel's, no loading."""
    found = recorded(monkeypatch, OLD, {NEW: None, OLD: None}, DOWN)
    assert found.ends == [("module", OLD), ("module", NEW), ("loaded", OLD)]
    assert [kernel for _, kernel, _ in found.calls] == [OLD, NEW, ""]


def test_a_held_kernel_is_released_where_all_were_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fails keeps the hold: the node would boot a kernel without the module."""
    held = {"boot": {**BOOT, "grubby": f"/boot/vmlinuz-{OLD}", "held": OLD}}
    found = recorded(monkeypatch, OLD, {NEW: None, OLD: BUILT}, held)
    assert found.ends == [("module", NEW), ("hold_kernel", "whole")]


def test_nodes_build_for_the_running_and_for_the_next_kernel_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyinfra runs one operation on all nodes at a time: that of the same lines of the step."""
    running = recorded(monkeypatch, NEW, {NEW: None}, DOWN).calls
    following = recorded(monkeypatch, OLD, {NEW: None, OLD: BUILT}, {}).calls
    assert following[0][:2] == ("module", NEW)
    assert running[0] == following[0]


@pytest.mark.parametrize("entry", ["/boot/vmlinuz-5.0.3", "", "/boot/vmlinuz-9.9.9"])
def test_more_kernels_than_a_node_has(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """A node that claims 127 keeps the others waiting for some alone; the report names the rest."""
    names = [f"5.0.{number}" for number in range(127)]
    installed = [{"name": each, "headers": True, "image": True, "module": None} for each in names]
    driver = {
        "kernels": {"running": "5.0.7", "installed": installed},
        "dkms": {"builds": []},
        "boot": {**BOOT, "grubby": entry},
        **DOWN,
    }
    found, wanted = states.state({"driver": driver}), states.wanted({})
    findings = check(found, wanted)
    plan = Plan(wanted, found, tuple(findings), states.nodes())
    recorder = Recorder(monkeypatch)
    step.converge._inner(plan)
    step.rest._inner(plan)
    built = [kernel for name, kernel, _ in recorder.calls if name == "module"]
    assert len(built) == 6 and built[0] == "5.0.7" and "5.0.126" in built
    assert "5.0.3" in built or "5.0.3" not in entry
    left = {each.subject: each for each in findings if each.rule == "driver.next-boot"}
    left = {name: each for name, each in left.items() if name in set(names) - set(built)}
    assert len(left) == 127 - 6
    for each in left.values():
        assert not each.fixable and "6 in all" in each.fix


def test_a_handful_of_kernels_is_repaired_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as an honest node has: the report after the deploy has nothing about them."""
    names = [f"5.0.{number}" for number in range(5)]

    def found(module: dict[str, str] | None) -> NodeState:
        installed = [
            {"name": each, "headers": True, "image": True, "module": module} for each in names
        ]
        kernels = {"running": "5.0.2", "installed": installed}
        boot = {**BOOT, "grubby": "/boot/vmlinuz-5.0.4"}
        return states.state({"driver": {"kernels": kernels, "boot": boot}})

    wanted, before = states.wanted({}), found(None)
    plan = Plan(wanted, before, tuple(check(before, wanted)), states.nodes())
    recorder = Recorder(monkeypatch)
    step.converge._inner(plan)
    step.rest._inner(plan)
    assert sorted(kernel for name, kernel, _ in recorder.calls if name == "module") == names
    assert not [each for each in check(found(BUILT), wanted) if each.step == "driver"]
