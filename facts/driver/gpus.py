"""GPUs: what nvidia-smi and the PCI bus report, whether CUDA starts, and what holds the GPUs."""

import re
from collections.abc import Iterable, Mapping

from gpu_node.facts.driver import cuda_init
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.probe import bounds, checked
from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Part, Section, Unreadable
from gpu_node.facts.probe.readers import Columns
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

# The first level of the keys that `_gpu` reads; nothing else of a GPU is sent.
_LEVELS = (
    *("product name", "product architecture", "gpu uuid", "persistence mode", "compute mode"),
    *("mig mode", "fb memory usage", "ecc mode", "ecc errors", "retired pages", "remapped rows"),
    *("clocks event reasons", "clocks throttle reasons", "gpu recovery action"),
)
_HEAD = re.compile(r"GPU [0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9A-Fa-f]")
_NAME = re.compile(r"(?!Unknown)[A-Z][A-Za-z0-9_ ]{2,40}")
# Drivers before 535 call them throttle reasons.
_REASON = re.compile(r"clocks (?:event|throttle) reasons/hw ")
_SWITCHES = {"Enabled": True, "Disabled": False, "Yes": True, "No": False}
# Architectures of one compute capability; of the others the model decides.
_CAPABILITIES = {"Volta": "7.0", "Turing": "7.5", "Ada Lovelace": "8.9", "Hopper": "9.0"}


def smi_section(request: ProbeRequest) -> Section:
    """Return the section about nvidia-smi and cuInit, which the training user calls."""
    # nvidia-smi is asked once: whether cuInit may be called depends on its answer.
    return Section(
        "driver.smi",
        cuda_init.script(request) + assigned(kept=f"|{'|'.join(_LEVELS)}|") + shell("driver/smi"),
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


UUIDS = Section("driver.uuids", shell("driver/uuids"), seconds=30)


class Gpu(State):
    """A GPU as nvidia-smi reports it: `memory` in MiB; None for a value that it does not know.

    `mode` is the compute mode: Default, Exclusive_Process or Prohibited. `uncorrected` are the ECC
    errors since the driver was loaded, `sram_uncorrected` those of its life. A GPU remaps rows of
    its memory (since Ampere), or retires pages (before): `remap_pending` and `retirement_pending`
    wait for a reset. `mig`: it is split into instances. `slowdown`: why the hardware slows it down
    now, "" if it does not; `recovery`: what the driver asks for to use it again, "None" if nothing.
    """

    name: str
    uuid: str
    memory: int | None
    persistence: bool | None
    ecc: bool | None
    driver: str
    capability: str | None = None
    mode: str | None = None
    ecc_pending: bool | None = None
    uncorrected: int | None = None
    sram_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    retirement_pending: bool | None = None
    mig: bool | None = None
    slowdown: str | None = None
    recovery: str | None = None


class Smi(State):
    """How nvidia-smi ended: its GPUs, and its other output; `code` None: it was not run.

    Then it does not exist, or it was `skipped`, because it would load a module that is not loaded.
    """

    code: int | None
    gpus: tuple[Gpu, ...]
    output: str
    skipped: bool = False

    @property
    def modes(self) -> dict[str, str | None]:
        """The compute mode of each GPU, by its UUID."""
        return {gpu.uuid: gpu.mode for gpu in self.gpus}

    @property
    def slowdowns(self) -> dict[str, str | None]:
        """Why the hardware slows down each GPU, by its UUID."""
        return {gpu.uuid: gpu.slowdown for gpu in self.gpus}

    @property
    def recoveries(self) -> dict[str, str | None]:
        """What the driver asks for to recover each GPU, by its UUID."""
        return {gpu.uuid: gpu.recovery for gpu in self.gpus}


class Device(State):
    """An NVIDIA GPU on the PCI bus: its device id (0x1db6), and the driver that has it, or "".

    `lanes` are those that its link uses, `most` those of the card, `above` those of the port that
    it is plugged into.
    """

    id: str
    driver: str = ""
    slot: str = ""
    lanes: int | None = None
    most: int | None = None
    above: int | None = None

    @property
    def narrow(self) -> str:
        """How many lanes it uses of those that card and port have; empty: all, or unknown."""
        least = min(self.most or 0, self.above or 0)
        return f"x{self.lanes} of x{least}" if 0 < (self.lanes or 0) < least <= _LANES else ""

    @property
    def is_given_away(self) -> bool:
        """Whether the machine keeps it for virtual machines: no job of its own gets it."""
        return self.driver in ("vfio-pci", "pci-stub", "pciback", "xen-pciback")


# The most lanes of PCI Express; an unknown number is a larger one.
_LANES = 32
# More GPUs than a machine has.
MOST_GPUS = 256


class Process(State):
    """A process that has a GPU open; `path` is its executable, empty if unknown."""

    pid: int
    user: str
    command: str
    path: str = ""


def parse_answers(text: str) -> Part[tuple[Smi, CudaInit | None]]:
    """Parse the answer of nvidia-smi, and `cuda` lines about cuInit, which may be unknown."""
    lines = lines_of(text)
    smi = parse_smi("\n".join(line for line in lines if not line.startswith("cuda ")))
    if smi.code is None:
        why = "the nvidia module is not loaded" if smi.skipped else "nvidia-smi is not installed"
        return Part((smi, CudaInit(untried=why)))
    try:
        return Part((smi, cuda_init.parse([line for line in lines if line.startswith("cuda ")])))
    except Exception as error:  # of any class: what is read of nvidia-smi stays
        return Part((smi, None), f"cuInit: {bounds.in_words(error)}")


def parse_smi(text: str) -> Smi:
    """Parse `code N`, then lines about all GPUs, and for each one `GPU SLOT` and `KEY: VALUE`s."""
    first, *rest = lines_of(text)
    if first in ("absent", "skipped"):
        return Smi(code=None, gpus=(), output="", skipped=first == "skipped")
    driver, gpus, output = "", list[dict[str, str]](), list[str]()
    for line in filter(str.strip, rest):
        key, colon, value = line.partition(": ")
        if _HEAD.fullmatch(line):
            gpus.append({"": line})
        elif key == "Driver Version":
            driver = value.strip()
        elif colon and gpus and key.partition("/")[0].lower() in _LEVELS:
            gpus[-1][key.lower()] = value.strip()
        else:  # it may list working GPUs with messages about others, and exit with 14 for a warning
            output.append(line)
    if len(gpus) > MOST_GPUS:
        raise Unreadable(f"nvidia-smi lists {len(gpus)} GPUs")
    present = [gpu for gpu in gpus if gpu.get("gpu uuid", "").startswith("GPU-")]
    lost = [gpu for gpu in gpus if gpu not in present]
    output += [f"{each['']}: {each.get('gpu uuid', 'it has no UUID')}" for each in lost]
    return Smi(
        code=checked.number(first.removeprefix("code "), 255),
        gpus=tuple(_gpu(each, driver) for each in present),
        output="; ".join(output),
    )


def _gpu(known: Mapping[str, str], driver: str) -> Gpu:
    architecture = known.get("product architecture", "")
    return Gpu(
        name=known["product name"],
        uuid=known["gpu uuid"],
        memory=_number(known.get("fb memory usage/total")),
        persistence=_switch(known.get("persistence mode")),
        ecc=_switch(known.get("ecc mode/current")),
        driver=driver,
        capability=_CAPABILITIES.get(architecture),
        mode=_name(known.get("compute mode")),
        ecc_pending=_switch(known.get("ecc mode/pending")),
        uncorrected=_errors(known, "ecc errors/volatile/"),
        sram_uncorrected=_errors(known, "ecc errors/aggregate/sram"),
        remap_pending=_switch(known.get("remapped rows/pending")),
        remap_failed=_switch(known.get("remapped rows/remapping failure occurred")),
        retired_pages=_sum(
            known.get(f"retired pages/{kind} bit ecc") for kind in ("single", "double")
        ),
        retirement_pending=_switch(known.get("retired pages/pending page blacklist")),
        mig=_switch(known.get("mig mode/current")),
        slowdown=_slowdown(known),
        recovery=_name(known.get("gpu recovery action")),
    )


def _name(value: str | None) -> str | None:
    """Return the name of a mode or an action; None for N/A and other words."""
    return value if value and _NAME.fullmatch(value) else None


def _slowdown(known: Mapping[str, str]) -> str | None:
    """Return which slowdowns of the hardware are active; None where the GPU reports none."""
    reasons = [key for key in known if _REASON.match(key)]
    active = [key.partition("/")[2] for key in reasons if known[key] == "Active"]
    return ", ".join(active) if reasons else None


def _switch(value: str | None) -> bool | None:
    """Return a switch; None for N/A, [Not Supported], Unknown Error and a key that is not there."""
    return _SWITCHES.get(value or "")


def _number(value: str | None) -> int | None:
    """Return a number, which may have a unit; None for N/A and other words."""
    number = (value or "").partition(" ")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else None


def _sum(values: Iterable[str | None]) -> int | None:
    """Return a sum; None where a number is unknown and the others are 0."""
    numbers = [_number(value) for value in values]
    known = sum(number for number in numbers if number is not None)
    return known if known or (numbers and None not in numbers) else None


def _errors(known: Mapping[str, str], place: str) -> int | None:
    """Return the uncorrected errors of a place: Volta has `Double Bit/Total`, later GPUs names."""
    return _sum(
        value
        for key, value in known.items()
        if key.startswith(place) and ("uncorrectable" in key or key.endswith("double bit/total"))
    )


_PROCESSES = Columns(Process, "pid user command path")


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse columns, and sort by the pids."""
    return tuple(sorted(_PROCESSES(text), key=lambda each: each.pid))


def parse_uuids(text: str) -> tuple[str, ...]:
    """Parse lines of a GPU's UUID."""
    uuids = tuple(text.split())
    odd = [each for each in uuids if not each.startswith("GPU-") or "?" in each]
    if odd:
        raise Unreadable(f"no UUID of a GPU: {odd[0]}")
    return uuids


PARSERS: Parsers = {
    "driver.smi": ("smi cuda_init", parse_answers),
    "driver.pci": ("devices", Columns(Device, "id driver slot lanes most above", " ")),
    "driver.processes": ("processes", parse_processes),
    UUIDS.name: ("uuids", parse_uuids),
}
