"""Network rules about what is carried: an interface that is fast enough, and large messages."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Interface
from gpu_node.drift.host.estimate import shown
from gpu_node.drift.network.ifname import carrier
from gpu_node.drift.network.interfaces import is_down, link_of, ports_of
from gpu_node.drift.ranges import ranges
from gpu_node.facts.network.state import Link, NetworkState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import JobsWanted

# Mbit/s: 1 Gbit/s is what a server has for its administration.
_SLOW = 1000


@check("network.slow-link")
def slow_link(at: At) -> Iterator[Fault]:
    if all(peer.gpus == 0 for peer in at.nodes.others) or _takes_infiniband(at.node):
        return
    link = link_of(at.node.network, carrier(at.node, at.wanted).name)
    if link is None or is_down(link):
        return
    speed = _speed(link, at.node.network)
    if speed is not None and speed <= _SLOW:
        yield Fault(
            subject=Interface(link.name),
            found=f"{speed} Mbit/s{_of_ports(link, at.node.network)}",
            wanted=f"more than {_SLOW} Mbit/s",
            cause=_cause(at.wanted.jobs, speed),
            fix="train over a faster interface (network: {interface: NAME} in the inventory), or "
            f"see what {link.name} and its switch port negotiated: ethtool {link.name}; else "
            "accumulate gradients over more micro-batches, with ZeRO stage 1 or 2, or LoRA",
        )


@check("network.bond-degraded")
def bond_degraded(at: At) -> Iterator[Fault]:
    for link in at.node.network.links or ():
        ports = ports_of(link, at.node.network) if link.kind == "bond" else []
        down = [port.name for port in ports if is_down(port)]
        if down and not is_down(link):
            yield Fault(
                subject=Interface(link.name),
                found=f"{', '.join(down)} of {counted(len(link.ports), 'port')} down",
                wanted="all its ports up",
            )


def _takes_infiniband(state: NodeState) -> bool:
    """Whether NCCL uses InfiniBand or RoCE in place of the interface."""
    is_disabled = (state.env.launcher or {}).get("NCCL_IB_DISABLE", "0") not in ("", "0")
    return state.network.infiniband is True and not is_disabled


def _speed(link: Link, network: NetworkState) -> int | None:
    """Return the speed in Mbit/s; None where no driver reports it.

    A bond or a bridge that reports none has that of its ports: of all together, or of the fastest
    where one carries at a time. The 10 Mbit/s of a tunnel mean nothing.
    """
    if link.kind in ("tun", "loopback"):
        return None
    if link.speed is not None:
        return link.speed
    speeds = [port.speed for port in ports_of(link, network) if not is_down(port)]
    known = [speed for speed in speeds if speed is not None]
    if not known or len(known) < len(speeds):
        return None
    return max(known) if link.one_port else sum(known)


def _of_ports(link: Link, network: NetworkState) -> str:
    shown = [f"{port.name} {port.speed or '?'}" for port in ports_of(link, network)]
    return f" ({', '.join(shown)})" if shown else ""


def _cause(jobs: JobsWanted | None, speed: int) -> str:
    if jobs is None or jobs.parameters is None:
        return (
            "each step waits for it: gradients take 4 bytes a parameter, ZeRO stage 3 takes 6; "
            "jobs: {parameters: ..., zero: ...} in the inventory shows how long that is"
        )
    each = 6 if jobs.zero == 3 else 4
    moved = jobs.parameters * each
    seconds = moved / (speed * 1e6 / 8)
    stage = "ZeRO stage 3" if jobs.zero == 3 else "an all-reduce of the gradients"
    return (
        f"each step waits for it at least {_time(seconds)}: {stage} moves {shown(jobs.parameters)} "
        f"parameters x {each} bytes = {moved / 1e9:.3g} GB through it (section 7 of the ZeRO paper)"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


@check("network.path-mtu")
def path_mtu(at: At) -> Iterator[Fault]:
    here = at.node.ports
    stalled = [name for name, each in (here.tried or {}).items() if each.large is False]
    if stalled:
        yield Fault(
            subject=Interface(here.interface),
            found=f"to {ranges(stalled)}: 512 bytes pass, 256 KiB do not",
            wanted="large messages pass, too",
        )
