"""nvidia-smi on a node: its answer by key, and where it is not run: it would load the module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.gpus import Smi, parse_answers
from gpu_node.facts.node import sections
from gpu_node.facts.probe.protocol import Section
from tests import nvidia_smi
from tests.facts import preflight
from tests.node_scripts import run_apart

SECTIONS = [each for each in sections(preflight.REQUEST) if "nvidia-smi " in each.command]
# As the real one with nvidia-modprobe: asked anything, it loads the module.
SMI = """#!/bin/sh
mkdir -p /sys/module/nvidia
echo "$*" >>{called}
cat {folder}/answer
"""
SMI_SECTION = next(each for each in SECTIONS if each.name == "driver.smi")


@pytest.fixture
def machine(tmp_path: Path, programs: Path) -> Path:
    """A folder whose `sys` is /sys/module, with an nvidia-smi that notes its calls."""
    programs.mkdir()
    (tmp_path / "sys").mkdir()
    program = programs / "nvidia-smi"
    program.write_text(SMI.format(called=tmp_path / "called", folder=tmp_path))
    (tmp_path / "answer").write_text(nvidia_smi.everything(nvidia_smi.gpu()))
    program.chmod(0o755)
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
    assert parse_answers(asked(machine, SMI_SECTION, shell))[0].skipped
    found = answer(machine, shell)
    assert not found.skipped and (found.code, found.output) == (0, "")
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert (machine / "called").read_text() == "-q\n"


def answer(machine: Path, shell: str, text: str = "") -> Smi:
    """What is read of nvidia-smi's answer, with the module loaded."""
    if text:
        (machine / "answer").write_text(text)
    (machine / "sys" / "nvidia").mkdir()
    return parse_answers(asked(machine, SMI_SECTION, shell))[0]


# Driver 450, V100: values below valued keys, and another spelling of ECC.
OLD = """\
    Ecc Mode
        Current                           : Enabled
        Pending                           : Disabled
    ECC Errors
        Volatile
            Single Bit
                Total                     : 3
            Double Bit
                Device Memory             : 1
                Texture Memory            : N/A
                Total                     : 1
        Aggregate
            Double Bit
                Total                     : 7
    Retired Pages
        Single Bit ECC                    : 2
        Double Bit ECC                    : 1
        Pending Page Blacklist            : Yes
    Remapped Rows                         : N/A"""
# Driver 550, A100.
NEW = """\
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    ECC Mode
        Current                           : Disabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 1
            DRAM Uncorrectable            : 2
        Aggregate
            SRAM Uncorrectable Parity     : 4
            SRAM Threshold Exceeded       : No
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : 9
    Retired Pages
        Single Bit ECC                    : N/A
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : No
    GPU Memory Power Readings 
        Power Draw                        : N/A"""


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (
            OLD,
            {"ecc": True, "ecc_pending": False, "uncorrected": 1, "sram_uncorrected": None}
            | {"retired_pages": 3, "retirement_pending": True, "remap_pending": None},
        ),
        (
            NEW,
            {"ecc": False, "ecc_pending": True, "uncorrected": 3, "sram_uncorrected": 4}
            | {"retired_pages": None, "remap_pending": True, "remap_failed": False},
        ),
    ],
    ids=["450", "550"],
)
def test_it_is_read_by_key(
    machine: Path, shell: str, lines: str, values: dict[str, object]
) -> None:
    """By each shell and awk; the memory is the GPU's, not that of a MIG device."""
    found = answer(machine, shell, nvidia_smi.everything(nvidia_smi.gpu(lines)))
    (gpu,) = found.gpus
    assert gpu.model_dump() | values == gpu.model_dump()
    assert (gpu.driver, gpu.memory, gpu.persistence) == ("535.154.05", 40960, True)


def test_messages_are_kept(machine: Path, shell: str) -> None:
    """Before the GPUs, and behind them; not what a process is called."""
    lost = "Unable to determine the device handle for GPU 0000:86:00.0: Unknown Error"
    damaged = "WARNING: infoROM is corrupted at gpu 0000:18:00.0"
    text = nvidia_smi.everything(nvidia_smi.gpu(processes="x\nRun rm -rf / to mend it\n"))
    found = answer(machine, shell, f"{lost}\n{text}{damaged}\n")
    assert found.output == f"{lost}; {damaged}"
    assert len(found.gpus) == 1


@pytest.mark.parametrize("text", ["No devices were found\n", "NVIDIA-SMI has failed because\n\n"])
def test_no_gpu_answers(machine: Path, shell: str, text: str) -> None:
    """What it says is the reason."""
    found = answer(machine, shell, text)
    assert (found.gpus, found.output) == ((), text.strip())


def test_a_process_cannot_name_itself_like_a_gpu(machine: Path, shell: str) -> None:
    """Its name has line breaks: each GPU is asked alone then, up to its processes."""
    names = "        Name                              : x\n" + nvidia_smi.gpu(uuid="GPU-false")
    slots = {"0000:18:00.0": "GPU-1", "0000:3b:00.0": "GPU-2"}
    honest = {
        slot: nvidia_smi.gpu(slot=f"0000{slot}", uuid=uuid, processes=names)
        for slot, uuid in slots.items()
    }
    (machine / "proc").mkdir()
    for slot, lines in honest.items():
        (machine / "proc" / slot).mkdir()
        (machine / slot).write_text(nvidia_smi.everything(lines, attached=2))
    text = nvidia_smi.everything(*honest.values(), attached=2)
    program = machine / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat {machine}/"${{3:-answer}}"\n')
    command = SMI_SECTION.command.replace("/proc/driver/nvidia/gpus", str(machine / "proc"))
    (machine / "answer").write_text(text)
    (machine / "sys" / "nvidia").mkdir()
    found, _ = parse_answers(asked(machine, replace(SMI_SECTION, command=command), shell))
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1", "GPU-2"]
    assert found.output == ""
