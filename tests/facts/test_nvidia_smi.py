"""nvidia-smi on a node: its answer by key, and where it is not run: it would load the module."""

from __future__ import annotations

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
    for name in ("sys", "driver"):
        (tmp_path / name).mkdir()
    program = programs / "nvidia-smi"
    program.write_text(SMI.format(called=tmp_path / "called", folder=tmp_path))
    (tmp_path / "answer").write_text(nvidia_smi.everything(nvidia_smi.gpu()))
    program.chmod(0o755)
    return tmp_path


def asked(machine: Path, section: Section, shell: str) -> str:
    """What a section answers there; `driver` is /proc/driver."""
    binds = ("sys", "/sys/module"), ("driver", "/proc/driver")
    before = "\n".join(f"mount --bind {machine / name} {place}" for name, place in binds)
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
    assert parse_answers(asked(machine, SMI_SECTION, shell)).value[0].skipped
    found = answer(machine, shell)
    assert not found.skipped and (found.code, found.output) == (0, "")
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert (machine / "called").read_text() == "-q\n"


def answer(machine: Path, shell: str, text: str = "") -> Smi:
    """What is read of nvidia-smi's answer, with the module loaded."""
    if text:
        (machine / "answer").write_text(text)
    (machine / "sys" / "nvidia").mkdir()
    return parse_answers(asked(machine, SMI_SECTION, shell)).value[0]


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


LOST = "Unable to determine the device handle for GPU 0000:86:00.0: Unknown Error"
DAMAGED = "WARNING: infoROM is corrupted at gpu 0000:18:00.0"


def test_messages_are_kept(machine: Path, shell: str) -> None:
    """Before the GPUs, and behind them; not what a process is called."""
    text = nvidia_smi.everything(nvidia_smi.gpu(processes="x\nRun rm -rf / to mend it\n"))
    program = machine / "bin" / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat {machine}/answer\nexit 14\n")
    found = answer(machine, shell, f"{LOST}\n{text}{DAMAGED}\n")
    assert found.output == f"{LOST}; {DAMAGED}"
    assert len(found.gpus) == 1


@pytest.mark.parametrize("text", ["No devices were found\n", "NVIDIA-SMI has failed because\n\n"])
def test_no_gpu_answers(machine: Path, shell: str, text: str) -> None:
    """What it says is the reason."""
    found = answer(machine, shell, text)
    assert (found.gpus, found.output) == ((), text.strip())


def named(lines: str) -> str:
    """A process whose name has these lines."""
    return f"        Name                              : x\n{lines}"


# Behind the processes of a GPU: the lines of another one, in the name of a process.
FORGED = {
    "not on the bus": named(nvidia_smi.gpu(slot="00000000:5E:00.0", uuid="GPU-false")),
    "on the bus": named(nvidia_smi.gpu(slot="00000000:3B:00.0", uuid="GPU-false")),
    "as an old driver": named(nvidia_smi.gpu(slot="0000:3b:00.0", uuid="GPU-false")),
    "with a count": named(
        nvidia_smi.gpu(f"{'Attached GPUs':42}: 9", slot="00000000:5E:00.0", uuid="GPU-false")
    ),
    "with a version": named(nvidia_smi.gpu(f"{'Driver Version':42}: 1.2.3", uuid="GPU-false")),
    "a GPU is lost": named("Unable to determine the device handle for GPU 0000:3B:00.0: Lost\n"),
    "a warning": named(f"{DAMAGED}\n"),
}
SLOTS = {"0000:18:00.0": "GPU-1", "0000:3b:00.0": "GPU-2"}
VERSIONS = {
    "closed": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC"
    " 2023",
    "open": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.154.05  Release Build  "
    "(dvs-builder@U16-I3-C03-4-3)  Thu Dec 28 15:37:48 UTC 2023",
}


def loaded(machine: Path, *slots: str, version: str = VERSIONS["closed"]) -> None:
    """Write what the driver shows in /proc."""
    for slot in slots:
        (machine / "driver/nvidia/gpus" / slot).mkdir(parents=True)
    (machine / "driver/nvidia/version").write_text(f"{version}\nGCC version:  gcc 12.3.0 \n")


@pytest.mark.parametrize("forged", FORGED)
def test_a_process_cannot_name_itself_like_a_gpu(machine: Path, shell: str, forged: str) -> None:
    """A name has line breaks: the driver lists the GPUs, and in doubt each is asked alone."""
    loaded(machine, *SLOTS)
    shown = [
        nvidia_smi.gpu(slot=f"0000{slot.upper()}", uuid=uuid, processes=FORGED[forged])
        for slot, uuid in SLOTS.items()
    ]
    for slot, lines in zip(SLOTS, shown, strict=True):
        (machine / slot).write_text(nvidia_smi.everything(lines, attached=2))
    program = machine / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat {machine}/"${{3:-answer}}"\n')
    found = answer(machine, shell, nvidia_smi.everything(*shown, attached=2))
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1", "GPU-2"]
    assert {gpu.driver for gpu in found.gpus} == {"535.154.05"}
    assert found.output == ""


def test_a_lost_gpu_cannot_be_forged(machine: Path, shell: str) -> None:
    """Its slot is on the bus, and the count is that of the working ones and the false one."""
    loaded(machine, *SLOTS)
    lost = LOST.replace("0000:86", "0000:3B")
    first = nvidia_smi.gpu(slot="00000000:18:00.0", processes=FORGED["on the bus"])
    (machine / "0000:18:00.0").write_text(nvidia_smi.everything(first))
    (machine / "0000:3b:00.0").write_text(f"{lost}\n")
    program = machine / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat {machine}/"${{3:-answer}}"\nexit 15\n')
    found = answer(machine, shell, f"{lost}\n{nvidia_smi.everything(first, attached=2)}")
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert found.output == lost


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_the_drivers(machine: Path, shell: str, version: str) -> None:
    """As the module shows it; a GPU of another domain is on the bus, too, and is asked once."""
    loaded(machine, "10000:18:00.0", version=VERSIONS[version])
    lines = nvidia_smi.gpu(slot="00010000:18:00.0")
    found = answer(machine, shell, nvidia_smi.everything(lines, driver="1.2"))
    assert [(gpu.uuid, gpu.driver) for gpu in found.gpus] == [("GPU-1", "535.154.05")]
    assert (machine / "called").read_text() == "-q\n"


def test_a_driver_that_lists_no_gpu(machine: Path, shell: str) -> None:
    """Nothing is read of an answer with more GPUs than its own count."""
    lines = nvidia_smi.gpu(processes=FORGED["not on the bus"])
    found = answer(machine, shell, nvidia_smi.everything(lines))
    assert found.gpus == () and "more GPUs than there are" in found.output
