"""NVIDIA's own wheels of one path: how they are found, what the copied cure does, the repair."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from pyinfra.api import Host, State
from pyinfra_testing.util import FakeState, create_host

from gpu_node.deploy.files import downloads as controller
from gpu_node.drift.engine.check import check
from gpu_node.facts.nccl.on_node import builds
from gpu_node.facts.nccl.state import Environment
from tests import environments
from tests.deploy.test_wheels import pip_as_it_is, repair
from tests.drift import states
from tests.environments import CU11, CU12
from tests.facts.test_environments import asked

__all__ = ["pip_as_it_is"]
pytestmark = pytest.mark.real_wheels

MOST_SECONDS = 1.0
DUPLICATE = "nccl.duplicate-wheels"
DAMAGED = "nccl.wheel-damaged"
MISMATCH = "nccl.loaded-mismatch"
ORDERS = {
    "wrong one last": ((CU12, CU11), 21403, {DUPLICATE, DAMAGED, MISMATCH}),
    "right one last": ((CU11, CU12), 21801, {DUPLICATE}),
}


def environment(folder: Path, real: Path, *installed: str) -> environments.Environment:
    """An environment in which its pip has installed these, one after the other."""
    made = environments.bare(folder / "env", real)
    for requirement in installed:
        made.pip("install", "-q", "--no-deps", requirement)
    return made


def rules(prefix: Path, found: Environment) -> set[str]:
    """Return the findings about an environment, on a node without other problems."""
    node = states.state({"nccl": {"environments": {str(prefix): found.model_dump()}}})
    wanted = states.wanted({"nccl_version": "match-torch", "nccl_environments": [str(prefix)]})
    return {each.rule for each in check(node, wanted) if each.subject == str(prefix)}


def assert_whole(made: environments.Environment) -> None:
    """One distribution, whose file is what its RECORD names; it is what torch has."""
    found = asked(made.prefix, deep=True)
    (wheel,) = found.wheels
    assert (wheel.name, wheel.version) == ("nvidia-nccl-cu12", "2.18.1")
    assert found.file is not None and found.loaded is not None and found.loads is not None
    assert (found.file.sha256, found.file.size) == (wheel.sha256, wheel.size)
    assert (found.file.version, found.loaded.version) == (21801, 21801)
    assert found.loads.reason == "DT_RPATH"
    assert made.imports_torch() == "21801"
    assert rules(made.prefix, found) == set()


@pytest.mark.parametrize(("order", "version", "expected"), ORDERS.values(), ids=ORDERS)
def test_both_orders(
    tmp_path: Path, real: Path, order: tuple[str, str], version: int, expected: set[str]
) -> None:
    """Two distributions, one file, which is that of the last; afterwards the right one alone."""
    made = environment(tmp_path, real, "torch", *order)
    found = asked(made.prefix)
    assert [wheel.name for wheel in found.wheels] == ["nvidia-nccl-cu11", "nvidia-nccl-cu12"]
    assert found.file is not None and found.file.version == version
    assert made.imports_torch() == str(version)
    assert rules(made.prefix, found) == expected
    done = repair(made, "dash", "nvidia-nccl-cu11")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert_whole(made)


def test_the_kernels_of_a_real_library(tmp_path: Path, real: Path) -> None:
    """NCCL 2.18.1 for CUDA 12 has kernels from sm_50 to sm_90, as its makefile lists them."""
    made = environment(tmp_path, real, CU12)
    with made.library.open("rb") as source:
        assert builds.kernels(source) == ["sm_50", "sm_60", "sm_61", "sm_70", "sm_80", "sm_90"]


def test_a_common_wrong_repair(tmp_path: Path, real: Path) -> None:
    """pip removes the shared file without an error; torch cannot be imported until the repair."""
    made = environment(tmp_path, real, "torch", CU12, CU11)
    made.pip("uninstall", "-q", "-y", "nvidia-nccl-cu11")
    assert not made.library.exists()
    assert "nvidia-nccl-cu12" in made.pip("list")
    assert "No broken requirements found" in made.pip("check")
    assert "libnccl.so.2" in made.imports_torch()
    assert rules(made.prefix, asked(made.prefix)) == {DAMAGED, MISMATCH}
    assert repair(made, "dash").code == 0
    assert_whole(made)


def test_from_the_controller(tmp_path: Path, real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is found by the node's platform, and verified as complete."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(real))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    made = environment(tmp_path, real, "torch", CU12, CU11)
    found, state = asked(made.prefix), FakeState()
    name = controller.wheel_name(CU12, found.python, str(found.platform))
    copy = tmp_path / name
    host = cast(Host, create_host(state))
    given = CU12, found.python, str(found.platform), str(copy)
    assert controller.wheel(cast(State, state), host, *given)
    done = repair(made, "dash", "nvidia-nccl-cu11", pushed=str(copy))
    assert (done.code, done.err, copy.exists()) == (0, "", False)
    assert_whole(made)


def _used() -> float:
    """The seconds of the processor that ended children have used."""
    used = os.times()
    return used.children_user + used.children_system


def test_the_section_takes_under_a_second(tmp_path: Path, real: Path) -> None:
    """Of the processor, with the library as large as it is, and read before.

    Neither the disk is measured, nor what else this machine does.
    """
    made = environment(tmp_path, real, "torch", CU12)
    asked(made.prefix)
    taken = []
    for _ in range(3):
        start = _used()
        asked(made.prefix)
        taken.append(_used() - start)
    assert min(taken) < MOST_SECONDS, taken
