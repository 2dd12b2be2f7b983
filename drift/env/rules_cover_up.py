"""Cover-ups: variables that hide a fault of the node instead of repairing it."""

from collections.abc import Iterable, Iterator

from gpu_node.drift.engine.finding import Finding, Severity, Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import RULES, At, Fault, check
from gpu_node.drift.engine.subject import Variable
from gpu_node.drift.env.cover_ups import HIDES, THREADS, is_cover_up
from gpu_node.drift.env.user_settings import (
    REMOVE_ITS_SOURCE,
    SESSION,
    editor,
    everywhere,
    of_session,
)
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.facts.env.start_files import Setting
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.wanted import NodeWanted

_INVENTORY = "the inventory"
# NCCL_P2P_DISABLE slows down every step, whatever it hides.
_SLOW = ("NCCL_P2P_DISABLE",)
_NO_INFINIBAND = "NCCL_IB_DISABLE"
# Rules whose findings are hidden only where they stop a job.
_IF_STOPPING = ("shm.stale-segments", "limits.memlock")


@check("env.cover-up")
def cover_up(at: At) -> Iterator[Fault]:
    for setting in _settings(at.node, at.wanted):
        if not is_cover_up(setting.name, setting.value):
            continue
        if setting.name in THREADS:
            yield _one_core(setting, at.node, at.wanted)
        else:
            yield _hiding(setting, at)


def _settings(state: NodeState, wanted: NodeWanted) -> Iterator[Setting]:
    """Yield what users' lines set, the inventory's variables, and what only the session shows.

    A user's line of a variable of the inventory is reported by env.conflict or env.not-set.
    """
    named = wanted.env or {}
    yield from (each for each in everywhere(state) if each.name not in named)
    for name, value in named.items():
        yield Setting(path=_INVENTORY, line=0, name=name, value=value)
    yield from of_session(state, {*named, IFNAME})


def _hiding(each: Setting, at: At) -> Fault:
    hides, state, wanted = HIDES[each.name], at.node, at.wanted
    out = _out(each)
    hidden: list[Finding] = [
        finding
        for rule in hides.rules
        for finding in RULES[rule].findings(state, wanted, Nodes())
        if rule not in _IF_STOPPING or (finding.stops and finding.severity == "error")
    ]
    is_slow = each.name in _SLOW or (each.name == _NO_INFINIBAND and _has_infiniband(at))
    severity: Severity = "warning" if hidden or is_slow else "info"
    if hidden:
        first = hidden[0]
        cause = f"{hides.does}; it hides {_named(hidden)}"
        fix = f"first {first.fix} ({first.rule}); then {out}"
        is_users = any(way.who == "user" for way in first.ways)
        return _fault(each, cause, fix, severity, None if is_users else "administrator")
    if unread := sorted({one.section for one in state.unreadable if one.area == hides.area}):
        cause = (
            f"{hides.does}; cannot determine whether it hides a fault: {unread[0]} is unreadable"
        )
        return _fault(each, cause, f"first repair what could not be read; then {out}", severity)
    if hides.unchecked:
        cause = f"{hides.does}; it may hide a fault of {hides.unchecked}, which is not checked"
        return _fault(each, cause, f"{out}, and look whether a job still runs", severity)
    return _fault(each, f"{hides.does}; it hides no fault that is on this node now", out, severity)


def _has_infiniband(at: At) -> bool:
    """Whether a port of InfiniBand or RoCE is active on the node and on each other one."""
    others = [state for name, state in at.nodes.states.items() if name != at.nodes.name]
    return bool(others) and all(each.network.infiniband for each in (at.node, *others))


def _named(hidden: Iterable[Finding]) -> str:
    """Return the hidden faults in words: rule, subject and what was found."""
    return "; ".join(
        dict.fromkeys(
            f"{each.rule}: {each.subject} {each.found}, wanted {each.wanted}" for each in hidden
        )
    )


def _one_core(each: Setting, state: NodeState, wanted: NodeWanted) -> Fault:
    """Return the fault of a thread count of one: CPU Adam of DeepSpeed runs on one core."""
    out = _out(each)
    offload = getattr(getattr(wanted, "jobs", None), "offload", None)
    if offload == "cpu":
        return _fault(
            each,
            "jobs here offload the optimizer to the CPU (jobs: {offload: cpu}), and this variable "
            "holds CPU Adam of each process to one core: each step waits for it",
            f"{out}, or set it to the cores of the node divided by its GPUs",
            "warning",
        )
    user = next(
        (prefix for prefix, one in environments(state.nccl) if "deepspeed" in one.packages), ""
    )
    who = f"DeepSpeed of {user}" if user else "a job"
    return _fault(
        each,
        f"it holds each process to one core: no fault is hidden, but if {who} offloads the "
        "optimizer to the CPU, CPU Adam runs on one core",
        f"{out}; with jobs: {{offload: cpu}} in the inventory this is a warning",
        "info",
    )


def _out(each: Setting) -> str:
    """Return how the setting is removed."""
    if each.path == SESSION:
        return REMOVE_ITS_SOURCE
    if each.path == _INVENTORY:
        return f"remove {each.name} from env in the inventory"
    return f"remove the line {each.place}"


def _fault(
    each: Setting, cause: str, fix: str, severity: Severity, who: Who | None = None
) -> Fault:
    where = each.path if each.path in (_INVENTORY, SESSION) else each.place
    return Fault(
        subject=Variable(each.name, where),
        found=f"{each.name}={(each.value or '').strip()}",
        wanted="not set",
        cause=cause,
        fix=fix,
        who=who or editor(each.path),
        severity=severity,
        explained_by=HIDES[each.name].rules if each.name in HIDES else (),
    )
