"""Driver rule about the Xid errors of GPUs and the SXid errors of NVSwitches, in the kernel log."""

from collections.abc import Iterator, Sequence

from gpu_node.drift import xids
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.host.machine import RECENT, ago
from gpu_node.facts.host.state import Log, Xid
from gpu_node.inventories.plurals import counted, few

_WANTED = "no error of the GPU or its driver"
# How many GPUs one text lists.
_MOST = 4


@check("driver.xid")
def xid(at: At) -> Iterator[Fault]:
    log, swap = at.node.host.log, at.node.host.swap
    by_name: dict[str, list[Xid]] = {}
    for each in log.xids if log else ():
        by_name.setdefault(f"{'S' * each.of_switch}Xid {each.code}", []).append(each)
    calm = []
    for name, several in by_name.items():
        newest = max(several, key=lambda each: each.at or 0)
        age = swap.uptime - newest.at if swap and newest.at is not None else None
        seen = _seen(log, several, age)
        known = None if newest.of_switch else xids.table().get(newest.code)
        if known.is_alarm if known else not newest.of_switch or newest.text.startswith("Fatal"):
            yield _fault(name, seen, newest, known, age)
        else:
            calm.append(f"{name}{f', {known.name}' if known else ''}: {seen}")
    if calm:
        yield Fault(
            subject="other Xid errors",
            found="; ".join(few(calm, _MOST)),
            wanted=_WANTED,
            cause="they are of applications, follow from another error, or record something: a "
            "healthy GPU has them, and nothing is to be done on the node",
            fix="look at the job that ran then; gpu-node explain xid.CODE says what a code means",
            severity="info",
            explains="none",
        )


def _seen(log: Log | None, several: Sequence[Xid], age: float | None) -> str:
    """Return how often GPUs had an error, how long ago the last time, and where they are."""
    times = counted(sum(each.times for each in several), "time")
    at_least = "" if log and log.whole else "at least "
    newest = "" if age is None else f"the newest {ago(max(age, 0))}, "
    slots = ", ".join(few([each.slot for each in several], _MOST))
    return f"{at_least}{times} since the boot, {newest}at PCI {slots}"


def _fault(name: str, seen: str, newest: Xid, known: xids.Xid | None, age: float | None) -> Fault:
    if known:
        whose, fix = f"{known.name}: usually the {known.whose}'s", known.does
    elif newest.of_switch:
        whose, fix = "an NVSwitch calls it fatal", xids.DOES["reset"]
    else:
        whose, fix = "the table of codes does not have it: its meaning is unknown", xids.UNKNOWN
    return Fault(
        subject=name,
        found=f"{seen}: {newest.text}" if newest.text else seen,
        wanted=_WANTED,
        also=whose,
        fix=fix,
        severity="info" if age is not None and age > RECENT else None,
    )
