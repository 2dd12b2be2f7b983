"""GPUs: what nvidia-smi and the PCI bus report, whether CUDA starts, and what holds the GPUs."""

from __future__ import annotations

import re

from gpu_node.facts.driver import cuda_init
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.probe import bounds
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Readings, Section, Unread, Unreadable
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import shell


def smi_section(request: ProbeRequest) -> Section:
    """Return the section about nvidia-smi and cuInit, which the training user calls."""
    # nvidia-smi is asked once: whether cuInit may be called depends on its answer.
    return Section(
        "driver.smi",
        cuda_init.script(request) + shell("driver/smi"),
        seconds=45,
        shared=cuda_init.SHARED,
        root=request.trains_apart,
    )


SECTIONS = (
    smi_section(ProbeRequest()),
    Section("driver.pci", shell("driver/pci"), light=True),
    Section(
        "driver.processes",
        shell("driver/processes"),
        shared=(PROCESS,),
        root=True,
        light=True,
    ),
)


_GPU = re.compile(r"[^,]+, GPU-[^,]+(, [^,]*){5,6}$")


class Gpu(State):
    """A GPU as nvidia-smi reports it: `memory` in MiB; None for a value that it does not know.

    `mode` is the compute mode: Default, Exclusive_Process or Prohibited.
    """

    name: str
    uuid: str
    memory: int | None
    persistence: bool | None
    ecc: bool | None
    driver: str
    capability: str | None
    mode: str | None = None


class Smi(State):
    """How nvidia-smi ended: its GPUs, and its other output; `code` None: it was not run.

    Then it does not exist, or it was `skipped`, because it would load a module that is not loaded.
    """

    code: int | None
    gpus: tuple[Gpu, ...]
    output: str
    skipped: bool = False


class Device(State):
    """An NVIDIA GPU on the PCI bus: slot, device id (0x1db6), and the driver that has it, or ""."""

    slot: str
    id: str
    driver: str


# More GPUs than a machine has.
MOST_GPUS = 256


class Process(State):
    """A process that has a GPU open; `path` is its executable, empty if unknown."""

    pid: int
    user: str
    command: str
    path: str = ""


def parse_answers(text: str) -> tuple[Smi, CudaInit | str]:
    """Parse the answer of nvidia-smi, and `cuda` lines about cuInit.

    A text instead of the result of cuInit is why that could not be read.
    """
    lines = lines_of(text)
    smi = parse_smi("\n".join(line for line in lines if not line.startswith("cuda ")))
    if smi.code is None:
        why = "the nvidia module is not loaded" if smi.skipped else "nvidia-smi is not installed"
        return smi, CudaInit(untried=why)
    try:
        return smi, cuda_init.parse([line for line in lines if line.startswith("cuda ")])
    except Exception as error:  # of any class: what is read of nvidia-smi stays
        return smi, f"cuInit: {bounds.in_words(error)}"


def parse_smi(text: str) -> Smi:
    """Parse `code N`, then the output of nvidia-smi: if it succeeded, a line for each GPU."""
    first, *rest = lines_of(text)
    if first in ("absent", "skipped"):
        return Smi(code=None, gpus=(), output="", skipped=first == "skipped")
    lines = list(filter(str.strip, rest))
    # It may list working GPUs together with messages about others, and exit with 14 for a warning.
    gpus = [line for line in lines if _GPU.match(line)]
    if len(gpus) > MOST_GPUS:
        raise Unreadable(f"nvidia-smi lists {len(gpus)} GPUs")
    output = "; ".join(line for line in lines if line not in gpus)
    return Smi(code=int(first.removeprefix("code ")), gpus=tuple(map(_gpu, gpus)), output=output)


def _gpu(line: str) -> Gpu:
    name, uuid, memory, persistence, ecc, driver, mode, *more = map(str.strip, line.split(","))
    switch = {"Enabled": True, "Disabled": False}
    return Gpu(
        name=name,
        uuid=uuid,
        memory=int(memory) if memory.isdigit() else None,
        persistence=switch.get(persistence),
        ecc=switch.get(ecc),
        driver=driver,
        capability=more[0] if more else None,
        mode=None if mode.startswith("[") else mode,
    )


def parse_devices(text: str) -> tuple[Device, ...]:
    """Parse lines of a slot, a device id and the driver's name."""
    rows = [(*line.split(), "")[:3] for line in lines_of(text)]
    return tuple(Device(slot=slot, id=id_, driver=driver) for slot, id_, driver in rows)


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse lines of a pid, a user, a command and the path of its executable."""
    rows = [line.split("\t") for line in lines_of(text)]
    found = [
        Process(pid=int(pid), user=user, command=name, path=path) for pid, user, name, path in rows
    ]
    return tuple(sorted(found, key=lambda each: each.pid))


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields about GPUs."""
    smi, cuda = readings.take("driver.smi", parse_answers) or (None, None)
    if isinstance(cuda, str):
        readings.unread.append(Unread("driver.smi", cuda))
        cuda = None
    return {
        "smi": smi,
        "cuda_init": cuda,
        "devices": readings.take("driver.pci", parse_devices),
        "processes": readings.take("driver.processes", parse_processes),
    }
