"""Cover-ups with and without the fault that each hides, beside the case files."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import RULES, At, Fault
from gpu_node.drift.env.cover_ups import is_cover_up
from tests.drift import states
from tests.drift.stub import stub

CUDA = "toolchain.cuda-mismatch"


def found_with(name: str) -> dict[str, object]:
    """Return the change of a node whose ~/.bashrc sets a variable to 1."""
    line = {"path": "~/.bashrc", "line": 7, "name": name, "value": "1"}
    return {"env": {"settings": [line]}}


def cover_ups(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.rule == "env.cover-up"]


@pytest.mark.parametrize("is_mismatch", [True, False])
def test_the_cuda_check_with_and_without_a_mismatch(
    is_mismatch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding is that of the rule that compares the CUDA versions."""

    def mismatch(at: At) -> Iterator[Fault]:
        if is_mismatch:
            yield Fault("nvcc", "12.2", "11.7", "it differs", "install CUDA 11.7", fixable=False)

    monkeypatch.setitem(RULES, CUDA, stub(CUDA, mismatch))
    node = states.state(found_with("DS_SKIP_CUDA_CHECK"))
    (finding,) = cover_ups(check(node, states.wanted()))
    assert finding.severity == ("warning" if is_mismatch else "info")
    if is_mismatch:
        assert f"it hides {CUDA}: nvcc 12.2, wanted 11.7" in finding.cause
        assert finding.fix.startswith(f"first install CUDA 11.7 ({CUDA}); then remove the line")
    else:
        assert "it hides no fault that is on this node now" in finding.cause


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
@pytest.mark.parametrize("offload", ["cpu", None])
def test_one_thread_with_and_without_offload(name: str, offload: str | None) -> None:
    """Only with CPU offload does a thread count of one slow down CPU Adam."""
    jobs = SimpleNamespace(offload=offload)
    wanted = states.wanted({"env": None}).model_copy(update={"jobs": jobs})
    (finding,) = cover_ups(check(states.state(found_with(name)), wanted))
    assert finding.severity == ("warning" if offload else "info")
    assert ("jobs: {offload: cpu}), and this variable holds CPU Adam" in finding.cause) == bool(
        offload
    )


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("NCCL_SHM_DISABLE", "1", True),
        ("NCCL_SHM_DISABLE", " 2", True),
        ("NCCL_SHM_DISABLE", "0x10", True),
        ("NCCL_SHM_DISABLE", "010", True),
        ("NCCL_SHM_DISABLE", "0x0", False),
        ("NCCL_SHM_DISABLE", "true", False),
        ("NCCL_SHM_DISABLE", "", False),
        ("NCCL_SHM_DISABLE", None, False),
        ("DS_SKIP_CUDA_CHECK", "1", True),
        ("DS_SKIP_CUDA_CHECK", "2", False),
        ("OMP_NUM_THREADS", "1", True),
        ("OMP_NUM_THREADS", "10", False),
        ("NCCL_DEBUG", "1", False),
    ],
)
def test_which_settings_cover_up(name: str, value: str | None, is_one: bool) -> None:
    """As NCCL, DeepSpeed and OpenMP read the value."""
    assert is_cover_up(name, value) is is_one
