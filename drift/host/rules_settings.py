"""Host rules: settings and modules of the kernel, and services, are as the inventory wants them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.host.settings import Setting
from gpu_node.facts.limits.confirmed import SYSCTL

# Of services: whether a boot starts such a one is another unit's decision.
_ELSEWHERE = ("static", "indirect", "generated", "alias")
# Where /etc/sysctl.conf is in the order of files.
_LAST = {"/etc/sysctl.conf": "~"}


@check("host.sysctl")
def sysctl(at: At) -> Iterator[Fault]:
    wanted = at.wanted.sysctl or {}
    both = {name: (each, each) for name, each in wanted.items()}
    for fault in _unlike(at, at.node.host.sysctl, both):
        yield replace(fault, names={**fault.names, "VALUE": fault.wanted})


@check("host.module")
def module(at: At) -> Iterator[Fault]:
    wanted = dict.fromkeys(at.wanted.modprobe or (), ("loaded", "loaded"))
    yield from _unlike(at, at.node.host.modules, wanted)


@check("host.service")
def service(at: At) -> Iterator[Fault]:
    wanted = dict.fromkeys(at.wanted.services or (), ("running", "enabled"))
    yield from _unlike(at, at.node.host.services, wanted)


def _unlike(
    at: At, rows: Sequence[Setting] | None, wanted: Mapping[str, tuple[str, str]]
) -> Iterator[Fault]:
    """Yield what is not as wanted now; on a machine also what will not be from the next boot on."""
    known, is_machine = {each.name: each for each in rows or ()}, not is_container(at.node)
    for name, (now, boot) in wanted.items() if rows is not None else ():
        row = known.get(name) or Setting(name=name)
        found, fix, fixable = row.now or "nothing", "", is_machine and row.can
        if row.now == now:
            if not is_machine or row.boot in (boot, *_ELSEWHERE):
                continue
            found = f"{row.boot or 'nothing'} from the next boot on"
            if row.file and _order(row.file) > _order(SYSCTL):
                fixable, fix = (
                    False,
                    f"remove the line of {name} from {row.file}, which is read last",
                )
        yield Fault(name, found, boot, fix=fix, fixable=fixable, names={"NAME": name})


def _order(path: str) -> str:
    return _LAST.get(path, path.rpartition("/")[2])
