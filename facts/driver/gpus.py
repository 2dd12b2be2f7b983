"""GPUs: what nvidia-smi says of them, what the PCI bus shows, and who holds them."""

from __future__ import annotations

import re

from facts.area import State
from facts.probe import Readings, Section

# It can hang for minutes where the module is in trouble, hence the limit. Drivers before 510 do
# not know compute_cap. Where the module is not loaded it would load it: a report changes nothing.
_SMI = r"""
command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
[ -d /sys/module/nvidia ] || { echo skipped; exit 0; }
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1; }
common=name,uuid,memory.total,persistence_mode,ecc.mode.current,driver_version
said=$(ask $common,compute_cap); code=$?
case $said in *'not a valid field'*) said=$(ask $common); code=$? ;; esac
echo "code $code"
echo "$said"
"""
# The bus shows them with no driver at all; class 03 is a display controller.
_PCI = r"""
for d in /sys/bus/pci/devices/*; do
  [ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$d/class" 2>/dev/null) in 0x03*) ;; *) continue ;; esac
  driver=$(readlink "$d/driver" 2>/dev/null)
  printf '%s %s %s\n' "${d##*/}" "$(cat "$d/device")" "${driver##*/}"
done
"""
# Whoever else than root asks sees no more than their own.
_PROCESSES = r"""
ls -l /proc/[0-9]*/fd 2>/dev/null | awk '
  /^\/proc\// { split($1, part, "/"); pid = part[3] }
  / \/dev\/nvidia[0-9]+$/ { holds[pid] = 1 }
  END { for (pid in holds) print pid }' | while read -r pid; do
  user=$(ls -ld "/proc/$pid" 2>/dev/null | awk '{ print $3 }')
  path=$(readlink "/proc/$pid/exe" 2>/dev/null)
  printf '%s\t%s\t%s\t%s\n' "$pid" "${user:-?}" "$(cat "/proc/$pid/comm" 2>/dev/null)" \
    "${path% (deleted)}"
done
"""

SECTIONS = (
    Section("driver.smi", _SMI, seconds=30),
    Section("driver.pci", _PCI),
    Section("driver.processes", _PROCESSES, root=True),
)


_GPU = re.compile(r"[^,]+, GPU-[^,]+(, [^,]*){4,5}$")


class Gpu(State):
    """A GPU as nvidia-smi tells of it: `memory` in MiB, what it does not know as None."""

    name: str
    uuid: str
    memory: int | None
    persistence: bool | None
    ecc: bool | None
    driver: str
    capability: str | None


class Smi(State):
    """How nvidia-smi ended: its GPUs, and its other output; `code` None: it was not run.

    It is absent then, or `skipped`: no module is loaded, and it would load that.
    """

    code: int | None
    gpus: tuple[Gpu, ...]
    said: str
    skipped: bool = False


class Device(State):
    """An NVIDIA GPU on the PCI bus: slot, device id (0x1db6), and the driver that has it or ""."""

    slot: str
    id: str
    driver: str


class Process(State):
    """A process that has a GPU open; `path` is its executable, empty where that is not known."""

    pid: int
    user: str
    command: str
    path: str = ""


def parse_smi(text: str) -> Smi:
    """Parse `code N`, then what nvidia-smi said: a line a GPU where it ended well."""
    first, *rest = text.splitlines()
    if first in ("absent", "skipped"):
        return Smi(code=None, gpus=(), said="", skipped=first == "skipped")
    lines = list(filter(str.strip, rest))
    # It may list the good ones beside what it has to say of others, and end 14 for a warning.
    gpus = [line for line in lines if _GPU.match(line)]
    said = "; ".join(line for line in lines if line not in gpus)
    return Smi(code=int(first.removeprefix("code ")), gpus=tuple(map(_gpu, gpus)), said=said)


def _gpu(line: str) -> Gpu:
    name, uuid, memory, persistence, ecc, driver, *capability = map(str.strip, line.split(","))
    switch = {"Enabled": True, "Disabled": False}
    return Gpu(
        name=name,
        uuid=uuid,
        memory=int(memory) if memory.isdigit() else None,
        persistence=switch.get(persistence),
        ecc=switch.get(ecc),
        driver=driver,
        capability=capability[0] if capability else None,
    )


def parse_devices(text: str) -> tuple[Device, ...]:
    """Parse a slot, a device id and the driver's name a line."""
    rows = [(*line.split(), "")[:3] for line in text.splitlines()]
    return tuple(Device(slot=slot, id=id_, driver=driver) for slot, id_, driver in rows)


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse a pid, a user, a command and the path of its executable a line."""
    rows = [line.split("\t") for line in text.splitlines()]
    found = [
        Process(pid=int(pid), user=user, command=name, path=path) for pid, user, name, path in rows
    ]
    return tuple(sorted(found, key=lambda each: each.pid))


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields that are about GPUs."""
    return {
        "smi": readings.take("driver.smi", parse_smi),
        "devices": readings.take("driver.pci", parse_devices),
        "processes": readings.take("driver.processes", parse_processes),
    }
