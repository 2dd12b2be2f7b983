"""A report never runs nvidia-smi where that would load the module: each section that calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.gpus import parse_answers
from gpu_node.facts.preflight import state as preflight
from gpu_node.facts.probe.protocol import Section
from tests.deploy import running
from tests.deploy.running import SHELLS, run_apart

SECTIONS = [each for each in preflight.SECTIONS if "nvidia-smi " in each.command]
# As the real one with nvidia-modprobe: asked anything, it loads the module.
SMI = """#!/bin/sh
mkdir -p /sys/module/nvidia
echo "$*" >>{called}
echo 'NVIDIA A100-PCIE-40GB, GPU-1, 40960, Enabled, Enabled, 535.154.05, Default, 8.0'
"""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of sh that a node may have."""
    return str(request.param)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `sys` is /sys/module, with an nvidia-smi that notes its calls."""
    for name in ("bin", "sys"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(SMI.format(called=tmp_path / "called"))
    program.chmod(0o755)
    monkeypatch.setattr(running, "FIRST_IN_PATH", f"{tmp_path / 'bin'}:")
    return tmp_path


def asked(machine: Path, section: Section, shell: str) -> str:
    """What a section answers there."""
    before = f"mount --bind {machine / 'sys'} /sys/module"
    done = run_apart(StringCommand(section.command), shell, before)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_there_are_sections_that_call_it() -> None:
    """The GPUs', NVLink's, and that of the UUIDs."""
    assert len(SECTIONS) == 3


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_no_module_is_loaded(machine: Path, shell: str, section: Section) -> None:
    """It is not run, and nothing is loaded by the question."""
    asked(machine, section, shell)
    assert not (machine / "called").exists()
    assert list((machine / "sys").iterdir()) == []


def test_it_is_skipped(machine: Path, shell: str) -> None:
    """That is the answer; with the module it runs."""
    (section,) = [each for each in SECTIONS if each.name == "driver.smi"]
    assert parse_answers(asked(machine, section, shell))[0].skipped
    (machine / "sys" / "nvidia").mkdir()
    found, _ = parse_answers(asked(machine, section, shell))
    assert not found.skipped and found.code == 0
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
