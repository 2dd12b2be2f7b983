"""What a copied environment brings that does not run on the node that receives it."""

from __future__ import annotations

import pytest

from gpu_node.drift.toolchain.operators import copied, lacking
from gpu_node.drift.toolchain.rules_operators import brought
from tests.drift import states

ADAM = {
    "name": "adam/fused_adam_op.cpython-310-x86_64-linux-gnu.so",
    "size": 1,
    "time": 1,
    "architectures": ["sm_80"],
}
CPU_ADAM = {**ADAM, "name": "adam/cpu_adam_op.so", "architectures": []}


@pytest.mark.parametrize(
    ("gpus", "here", "expected"),
    [
        (["Tesla V100-PCIE-32GB"], ("avx2", "avx512f"), "fused_adam for sm_80"),
        (["NVIDIA A100-PCIE-40GB"], ("avx2",), "cpu_adam, perhaps for a CPU with avx512f"),
        (["NVIDIA A100-PCIE-40GB"], ("avx2", "avx512f"), ""),
        # Unknown flags and an unknown model: nothing is concluded.
        (["a model of no table"], (), ""),
    ],
)
def test_what_a_copy_brings(gpus: list[str], here: tuple[str, ...], expected: str) -> None:
    environment = {"deepspeed": {"operators": [ADAM, CPU_ADAM]}}
    node = states.state({"nccl": {"environments": {"/opt/dis": environment}}})
    theirs = node.nccl.environments["/opt/dis"]
    assert theirs is not None
    assert copied(theirs, gpus, here, ("avx2", "avx512f")) == expected


def test_the_command_that_a_copy_asks_for() -> None:
    """One that builds for the GPUs of all nodes: the environment may be copied again."""
    environment = {
        "deepspeed": {"operators": [ADAM]},
        "packages": {"deepspeed": "0.14.0"},
    }
    source = states.state({"nccl": {"environments": {"/opt/dis": environment}}})
    theirs = source.nccl.environments["/opt/dis"]
    assert theirs is not None
    around = (states.state(), source, ["Tesla V100-PCIE-32GB"], states.nodes())
    words = brought("/opt/dis", theirs, *around)
    assert "fused_adam for sm_80; they do not run here until this node compiles them" in words
    assert words.endswith(
        "TORCH_CUDA_ARCH_LIST='7.0;8.0' DS_BUILD_FUSED_ADAM=1 /opt/dis/bin/python -m pip install "
        "--force-reinstall --no-deps --no-cache-dir --no-build-isolation deepspeed==0.14.0"
    )
    a100 = (*around[:2], ["NVIDIA A100-PCIE-40GB"], around[3])
    assert brought("/opt/dis", theirs, *a100) == ""


def test_only_instruction_sets_count() -> None:
    """Flags of the kernel, such as those of its mitigations, do not matter to compiled code."""
    assert lacking(["avx2"], ["avx2", "ibrs", "md_clear", "fma", "sse4_2"]) == ["fma"]
