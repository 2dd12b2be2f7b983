"""Pre-flight of the cards: GPUs by PCI id, NVSwitch and NVLink, and the driver that is there."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.module import signing_key
from gpu_node.drift.driver.rules_gpus import unsupported
from gpu_node.drift.driver.rules_risks import secure_boot
from gpu_node.drift.driver.target import installed, is_version, model_of, source_of, support
from gpu_node.drift.engine.rule import Fault
from gpu_node.drift.preflight.row import Newcomer, Row, Verdict, unknown
from gpu_node.drift.tables import kinds
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.schema import DriverWanted, NodeWanted


def judged(found: NewcomerState, newcomer: Newcomer, wanted: NodeWanted | None) -> Iterator[Row]:
    """Yield the rows about GPUs and their driver."""
    driver = wanted.driver if wanted else None
    yield _gpus(found, newcomer)
    yield from _answering(found)
    yield from _switches(found)
    yield from _links(found)
    yield _driver(found, driver)
    yield from _unsupported(found, driver)
    yield from _nouveau(found)
    yield from _secure_boot(found, driver)
    yield _processes(found)


def models(found: NewcomerState) -> list[str | None]:
    """Return each GPU's model by nvidia-smi, else by its PCI id; None for one of no table."""
    named = [gpu.name for gpu in found.driver.smi.gpus] if found.driver.smi else []
    devices = found.driver.devices or ()
    if named and len(named) >= len(devices):
        return list(named)
    return [model_of(device.id) for device in devices]


def _gpus(found: NewcomerState, newcomer: Newcomer) -> Row:
    names, devices = models(found), found.driver.devices
    if devices is None and not names:
        return unknown("GPUs", found.unreadable, "driver.pci", "stop")
    if not names:
        why = "neither the PCI bus nor a driver shows an NVIDIA GPU"
        fix = "look with lspci -d 10de:; a card that is plugged in may need power, or the firmware"
        return Row("GPUs", "none", "stop", why, fix)
    ids = [device.id for device in devices or ()]
    known = [name or f"PCI id 10de:{ids[n].removeprefix('0x')}" for n, name in enumerate(names)]
    shown = ", ".join(f"{known.count(each)} x {each}" for each in dict.fromkeys(known))
    if len(kinds(known)) > 1:
        why = "a node has GPUs of one model: a job waits for the slowest, and a card for a display "
        why += "is no GPU to train on; it cannot be onboarded as it is"
        fix = "take the other cards out, or turn their slots off in the firmware; then run again"
        return Row("GPUs", shown, "stop", why, fix)
    if not all(name and support(name) for name in names):
        why = "no table has this model: its limits are unknown"
        fix = "name its group: --group; or add it to drift/data/pci_ids.tsv and gpus.tsv"
        return Row("GPUs", shown, "warning" if newcomer.group else "stop", why, fix)
    if len(set(known)) > 1:
        why = "they are of one model but differ: the smallest and slowest limits a job"
        return Row("GPUs", shown, "warning", why, "make them alike, or continue as they are")
    return Row("GPUs", shown)


def _answering(found: NewcomerState) -> Iterator[Row]:
    """Yield a row where fewer GPUs answer than are plugged in."""
    smi, devices = found.driver.smi, found.driver.devices
    if smi is None:
        yield unknown("nvidia-smi", found.unreadable, "driver.smi")
    elif devices and smi.gpus and len(smi.gpus) < len(devices):
        shown = f"{len(smi.gpus)} of {len(devices)} GPUs answer"
        fix = "look for NVRM and Xid in dmesg; a GPU that is off the bus needs a power cycle"
        yield Row("nvidia-smi", shown, "warning", smi.output or "one may have fallen off", fix)


def _switches(found: NewcomerState) -> Iterator[Row]:
    switches = found.switches
    if switches is None:
        yield unknown("NVSwitch", found.unreadable, "preflight.switches")
    elif switches.found:
        ids = ", ".join(dict.fromkeys(each.id.removeprefix("0x") for each in switches.found))
        state = (
            "runs"
            if switches.running
            else "does not run"
            if switches.installed
            else "is not installed"
        )
        shown = f"{len(switches.found)} (10de:{ids}), fabric manager {state}"
        why = "the GPUs need it in the driver's version: without it CUDA fails with error 802"
        fix = "install nvidia-fabricmanager of the driver's version, and enable its service"
        yield (
            Row("NVSwitch", shown)
            if switches.running
            else Row("NVSwitch", shown, "warning", why, fix)
        )


def _links(found: NewcomerState) -> Iterator[Row]:
    """Yield a row about NVLink where there is any, or where that is unknown."""
    links = found.nvlinks
    by_link = [each for each in links.gpus if each.links] if links else []
    expected = any(name and "SXM" in name for name in models(found))
    if links is None:
        yield unknown("NVLink", found.unreadable, "preflight.nvlink")
    elif by_link:
        total, active = (sum(getattr(each, key) for each in by_link) for key in ("links", "active"))
        shown = f"{active} of {total} links work"
        why = "NCCL uses a slower path between these GPUs"
        fix = "look at nvidia-smi nvlink -s and topo -m; with an NVSwitch: at its fabric manager"
        yield Row("NVLink", shown) if active == total else Row("NVLink", shown, "warning", why, fix)
    elif expected:
        why = links.output or "no driver is installed"
        fix = "look at nvidia-smi nvlink -s once the driver is loaded"
        yield Row("NVLink", "unknown", "warning", why, fix)


def _driver(found: NewcomerState, wanted: DriverWanted | None) -> Row:
    state = found.driver
    for section, value in (("library", state.library), ("dkms", state.dkms)):
        if value is None:
            return unknown("driver", found.unreadable, f"driver.{section}")
    if state.loaded is None:
        return unknown("driver", found.unreadable, "driver.loaded")
    version = installed(state)
    expected = wanted.version if wanted else None
    if version is None:
        return _no_driver(found, wanted)
    if found.runfile is None:
        return unknown("driver", found.unreadable, "preflight.runfile")
    traces = (*found.runfile.installers, *found.runfile.modules)
    if traces and source_of(state, version) is None:
        why = f"{traces[0]}: NVIDIA's installer ran without --dkms, so dkms cannot manage "
        why += "it: the next kernel has no module, and the GPUs are lost"
        fix = "run the installer of this version again with --dkms; or nvidia-uninstall, and "
        fix += "install the driver's dkms package"
        return Row("driver", f"{version}, by NVIDIA's installer", "warning", why, fix)
    if expected and not is_version(version, expected):
        why = (
            f"the inventory wants {expected}: nodes of one job differ in the CUDA that they can run"
        )
        fix = f"install the driver's packages of {expected} while nothing uses the GPUs"
        return Row("driver", version, "warning", why, fix)
    return Row("driver", version)


def _no_driver(found: NewcomerState, wanted: DriverWanted | None) -> Row:
    family = FAMILIES.get(found.packages.manager or "")
    packages = getattr(wanted.packages, family) if family and wanted and wanted.packages else None
    if packages:
        return Row("driver", f"none; the deploy installs {', '.join(packages)}")
    which = (wanted.version if wanted else None) or "one for its GPUs"
    why = "without a driver the GPUs cannot be used"
    fix = f"install the driver ({which}) with its dkms package, or name its packages in the "
    fix += "inventory (driver: {packages: ...}): the deploy then installs it"
    return Row("driver", "none", "warning", why, fix)


def _unsupported(found: NewcomerState, wanted: DriverWanted | None) -> Iterator[Row]:
    gpus = tuple(dict.fromkeys(name for name in models(found) if name))
    for fault in unsupported(found.driver, gpus, wanted or DriverWanted()):
        yield _of_rule("driver for its GPUs", fault)


def _of_rule(subject: str, fault: Fault) -> Row:
    """Return the row of what a rule of the report finds: an error stops."""
    shown = f"{fault.subject}: {fault.found}"
    verdict: Verdict = "warning" if fault.severity == "warning" else "stop"
    return Row(subject, shown, verdict, f"wanted is {fault.wanted}: {fault.cause}", fault.fix)


def _nouveau(found: NewcomerState) -> Iterator[Row]:
    if found.driver.loaded is not None and found.driver.loaded.nouveau:
        why = "it holds the GPUs, so the nvidia module finds none"
        fix = "the deploy removes it; if the console uses nouveau, the node needs a reboot"
        yield Row("nouveau", "loaded", "warning", why, fix)


def _secure_boot(found: NewcomerState, wanted: DriverWanted | None) -> Iterator[Row]:
    firmware = found.driver.secure_boot
    if firmware is None:
        yield unknown("Secure Boot", found.unreadable, "driver.secure-boot")
    elif firmware.state != "on":
        yield Row("Secure Boot", "off" if firmware.state == "off" else "none")
    else:
        faults = list(secure_boot(found.driver, wanted or DriverWanted()))
        yield from (_of_rule("Secure Boot", fault) for fault in faults)
        if not faults:
            why = "a module that dkms builds must be signed with a key that the firmware knows"
            key = signing_key(found.driver)
            fix = f"mokutil --import {key}, and confirm it at the console during a boot; or turn "
            fix += "Secure Boot off in the firmware"
            yield (
                Row("Secure Boot", "on")
                if firmware.enrolled
                else Row("Secure Boot", "on", "warning", why, fix)
            )


def _processes(found: NewcomerState) -> Row:
    holders = found.driver.processes
    if holders is None:
        return unknown("GPU processes", found.unreadable, "driver.processes")
    shown = jobs(holders, "libraries")
    if not shown:
        return Row("GPU processes", "none")
    why = "the deploy refuses steps that would hurt them while they run"
    return Row("GPU processes", shown, "warning", why, "let them end before the deploy")
