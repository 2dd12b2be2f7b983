"""The order of the driver's operations: what loads first, and what nodes do at the same time."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gpu_node.deploy.driver import step
from gpu_node.deploy.engine.plan import Plan
from gpu_node.drift.engine.check import check
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
    """In place of the operations: each with the kernel it is about, and where step.py calls it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, tuple[int, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def note(**given: Any) -> None:
            kernel = given.get("kernel") or next(iter(given.get("kernels", ())), "")
            self.calls.append((name, kernel, tuple(self._lines())))

        return note

    @staticmethod
    def _lines() -> list[int]:
        frame, lines = sys._getframe(2), []
        while frame.f_back is not None and frame.f_code.co_filename == step.__file__:
            lines.append(frame.f_lineno)
            frame = frame.f_back
        return lines


def calls(
    monkeypatch: pytest.MonkeyPatch, running: str, modules: dict[str, Any], more: dict[str, Any]
) -> list[tuple[str, str, tuple[int, ...]]]:
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
    found, wanted = states.found({"driver": driver}), states.wanted({})
    plan = Plan(wanted, found, tuple(check(found, wanted)), states.among())
    recorder = Recorder()
    monkeypatch.setattr(step, "driver", recorder)
    step.converge._inner(plan)
    return recorder.calls


def test_the_running_kernel_is_built_and_loaded_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next kernel's build may fail, and jobs can run without it."""
    found = calls(monkeypatch, OLD, {NEW: None, OLD: None}, DOWN)
    names = [(name, kernel) for name, kernel, _ in found]
    assert names == [("module", OLD), ("loaded", ""), ("module", NEW)]


def test_nodes_build_for_the_running_and_for_the_next_kernel_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyinfra runs one operation on all nodes at a time: that of the same lines of the step."""
    running = calls(monkeypatch, NEW, {NEW: None}, DOWN)
    following = calls(monkeypatch, OLD, {NEW: None, OLD: BUILT}, {})
    assert following[0][:2] == ("module", NEW)
    assert running[0] == following[0]
