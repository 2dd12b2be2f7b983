"""Host rules: settings and modules of the kernel, and services, are as the inventory wants them."""

from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.engine.rule import At, Fault, check, unknown
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.host.settings import Service, SetBy, Sysctl
from gpu_node.facts.limits.confirmed import SYSCTL

_LAST = "/etc/sysctl.conf"
_RUNS = "enabled and running"
# Whether a boot starts such a service is up to an administrator.
_SWITCHED = ("enabled", "enabled-runtime", "disabled")
_PACKAGES = {
    "nvidia-persistenced": "nvidia-compute-utils-BRANCH on Ubuntu, nvidia-persistenced elsewhere",
    "nvidia-fabricmanager": "nvidia-fabricmanager-BRANCH with apt, nvidia-fabric-manager with yum",
    "nvidia-dcgm": "datacenter-gpu-manager",
}


@check("host.sysctl")
def sysctl(at: At) -> Iterator[Fault]:
    if (here := at.node.host.sysctl) is not None:
        for name, value in (at.wanted.sysctl or {}).items():
            yield from _setting(at, here, name, value)


def _setting(at: At, here: Sysctl, name: str, value: str) -> Iterator[Fault]:
    now, is_machine = here.values.get(name), not is_container(at.node)
    lines = [each for each in here.lines if each.name == name]
    boot = [each for each in lines if each.file != _LAST][-1:]
    last = [each for each in lines if each.file == _LAST][-1:]
    if name in here.lacks:
        how = "correct its name, or load the module that has it (modprobe)"
        yield Fault(name, "the kernel has no such setting", value, fix=how, fixable=False)
    elif now is None:
        yield replace(unknown(name, at.node, "host.sysctl"), fixable=False)
    elif now != value:
        yield Fault(name, now, value, fixable=is_machine, names={"NAME": name, "VALUE": value})
    elif is_machine:
        yield from _at_boot(name, value, boot, last)


def _at_boot(name: str, value: str, boot: list[SetBy], last: list[SetBy]) -> Iterator[Fault]:
    names = {"NAME": name, "VALUE": value}
    later = [each for each in boot if each.value != value and _is_later(each)]
    if not boot or (boot[0].value != value and not later):
        found = boot[0].value if boot else "its default"
        yield Fault(name, f"{found} from the next boot on", value, names=names)
    for each in later or (last if last and last[0].value != value else ()):
        when = "from the next boot on" if later else "after sysctl --system"
        yield Fault(
            name,
            f"{each.value} {when}",
            value,
            fix=f"remove the line of {name} from {each.file}, which is read last",
            fixable=False,
            severity="warning" if later else "info",
        )


def _is_later(line: SetBy) -> bool:
    return line.file.rpartition("/")[2] > SYSCTL.rpartition("/")[2]


@check("host.module")
def module(at: At) -> Iterator[Fault]:
    here, is_machine = at.node.host.modules, not is_container(at.node)
    for name in at.wanted.modprobe or ():
        if here is None or name in here.builtin:
            continue
        if name not in here.loaded:
            there = name in here.there
            found = "not loaded" if there else "the running kernel has no such module"
            yield Fault(name, found, "loaded", fixable=is_machine and there, names={"NAME": name})
        elif is_machine and name not in here.at_boot:
            yield Fault(name, "no file loads it at a boot", "loaded", names={"NAME": name})


@check("host.service")
def service(at: At) -> Iterator[Fault]:
    here = at.node.host.services
    for name in at.wanted.services or ():
        found, fixable, fix = _lacking(name, (here or {}).get(name))
        if here is not None and found:
            names = {"NAME": name}
            yield Fault(name, found, _RUNS, fix=fix, fixable=fixable, names=names)


def _lacking(name: str, unit: Service | None) -> tuple[str, bool, str]:
    """Return what a service lacks, whether the deploy gives it, and what else does."""
    if unit is None:
        return "systemd does not run", False, "start the program where the node itself is started"
    if unit.load == "not-found":
        package = _PACKAGES.get(name, "the package that has it")
        return "not installed", False, f"install {package}"
    if "masked" in (unit.load, unit.file):
        return "masked", False, ""
    runs = unit.active in ("active", "reloading") or unit.is_done
    lacks = [] if unit.file == "enabled" or unit.file not in _SWITCHED else [unit.file]
    lacks += [] if runs else [unit.active]
    return ", ".join(lacks), unit.file in _SWITCHED, ""
