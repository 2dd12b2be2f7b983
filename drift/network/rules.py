"""Network rules: the interface is there and fit, and NCCL takes it, wherever its value is from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpu_node.drift.engine.finding import Severity, Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Interface, Path, Shell
from gpu_node.drift.env.bashrc import BASHRC, is_network_home
from gpu_node.drift.env.rules import block_outdated
from gpu_node.drift.env.user_settings import editor, exported
from gpu_node.drift.network.ifname import (
    CONF,
    INTERACTIVE,
    SHELL,
    Place,
    carrier,
    chosen,
    is_deepspeed,
    is_right,
    managed,
    oldest,
    places,
    shell_places,
)
from gpu_node.drift.network.interfaces import (
    AUTO,
    by_itself,
    candidates,
    is_down,
    is_local,
    is_never,
    is_unset,
    link_of,
    selected,
    sharing,
)
from gpu_node.drift.network.reach import carriers, managed_ends, unreached
from gpu_node.drift.toolchain.packages import are_read
from gpu_node.facts.network.state import Link, NetworkState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.schema import NetworkWanted, NodeWanted

_HANGS = (
    "NCCL listens on an address that the other nodes cannot reach: the job hangs, or ends in "
    "'Bootstrap : no socket interface found' or 'Default process group has not been initialized'"
)
# Of what chooses NCCL's interface on a node.
_WRITES = "Writes lines in /etc/nccl.conf, and a marked block in ~/.bashrc of the training user."
_ALONE = "Write NCCL_SOCKET_IFNAME==NAME to ~/.nccl.conf, or export it at the top of ~/.bashrc."


@rule(
    "network.interface-gone",
    "error",
    stops="several",
    why=_HANGS,
    manual="set network: auto in the inventory, or the interface's new name",
)
def interface_gone(state: NetworkState, wanted: NetworkWanted) -> Iterator[Fault]:
    """The interface that the inventory names does not exist."""
    if state.links is None or wanted.interface == AUTO or link_of(state, wanted.interface):
        return
    known = [link.name for link in state.links if link.kind != "loopback"]
    yield Fault(
        subject=Interface(wanted.interface),
        found=f"no such interface; there are {', '.join(known) or 'none'}",
        wanted=wanted.interface,
    )


@rule(
    "network.address-missing",
    ("error", "warning"),
    between=True,
    stops="several",
    why=_HANGS,
    manual="set in the inventory the address that the other nodes reach, or name the interface "
    "that reaches them, network: {interface: NAME}, and give it an address in their network",
)
def address_missing(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """No interface has the node's address, or the named one does not reach those of the others."""
    if wanted.network is None:
        return
    choice = chosen(state, wanted)
    if wanted.network.interface == AUTO:
        if choice.name is None and choice.known:
            needed = f"an interface that has {wanted.address}"
            yield Fault(wanted.address, choice.why, needed)
    elif choice.name is not None:
        ends = nodes.once(managed_ends)
        if why := unreached(nodes.name, state.network, choice.name, ends):
            needed = "an interface that reaches those of the other nodes"
            yield Fault(Interface(choice.name), why[0], needed, severity=why[1])


@rule(
    "network.interface-down",
    "error",
    whole=True,
    always=True,
    stops="several",
    why=_HANGS,
    manual="run ip link set NAME up, and check its cable and switch port",
    alone="Train over another interface: network: {interface: NAME} in the inventory.",
)
def interface_down(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The interface to train over is down."""
    link = link_of(state.network, carrier(state, wanted).name)
    if link is None or not is_down(link):
        return
    yield Fault(
        subject=Interface(link.name),
        found="up, without a carrier" if link.up else "down",
        wanted="up",
        fix=f"ip link set {link.name} up, and look at its cable and switch port",
    )


@rule(
    "network.subnet-shared",
    "warning",
    whole=True,
    always=True,
    why="the kernel sends by either of them and answers for both addresses (ARP): "
    "connections break, or take the slow one",
    manual="bond both interfaces, or put one of them into another subnet",
    alone="Set NCCL_SOCKET_IFNAME to one interface, as =NAME.",
)
def subnet_shared(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Another interface is in the same subnet as the one to train over."""
    name = carrier(state, wanted).name
    for other, subnet in sharing(state.network, name) if name else ():
        yield Fault(
            subject=Interface(name or ""),
            found=f"{other} is in {subnet}, too",
            wanted=f"{subnet} on one interface",
            fix=f"bond {name} with {other}, or give {other} a separate subnet",
        )


def _is_judged(state: NodeState, wanted: NodeWanted) -> str | None:
    """Return the interface that must be selected; None where nothing can be judged."""
    return chosen(state, wanted).name if wanted.network is not None else None


@rule(
    "network.ifname-missing",
    "error",
    whole=True,
    step=("network", "env"),
    because_of=(on_node(block_outdated, of=(Shell,)),),
    under="network",
    stops="several",
    why="NCCL chooses an interface itself, and a different one when the node gets more interfaces",
    manual="set NCCL_SOCKET_IFNAME in /etc/nccl.conf and in the shell of the launcher",
    repair=_WRITES,
    alone=_ALONE,
)
def ifname_missing(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """NCCL_SOCKET_IFNAME is not set, so NCCL chooses an interface by itself."""
    name = _is_judged(state, wanted)
    if name is None:
        return
    version = oldest(state)
    nccl = f"NCCL {'.'.join(map(str, version))}" if version else "NCCL"
    takes = ", ".join(by_itself(state.network, version)) or "none"
    for place in places(state, wanted):
        if is_unset(place.value):
            cause = f"{nccl} would choose {takes} itself, and others when the node gets more"
            stops = name not in by_itself(state.network, version)
            yield _ifname_fault(state, place, "not set", name, cause, stops)


@rule(
    "network.ifname-wrong",
    "error",
    between=True,
    step=("network", "env"),
    because_of=(on_node(block_outdated, of=(Shell,)),),
    under="network",
    always=True,
    stops="several",
    why="NCCL listens on an address that the other nodes cannot reach: the job hangs or "
    "fails at its start",
    manual="correct NCCL_SOCKET_IFNAME in /etc/nccl.conf and in the shell of the launcher",
    repair=_WRITES,
    alone=_ALONE,
)
def ifname_wrong(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """NCCL_SOCKET_IFNAME does not select exactly the interface that the other nodes reach."""
    if wanted.network is None:
        yield from _not_managed(state, wanted, nodes)
        return
    name = _is_judged(state, wanted)
    if name is None:
        return
    names = candidates(state.network, oldest(state))
    for place in places(state, wanted):
        if is_unset(place.value) or is_right(state, IFNAME, place.value, f"={name}"):
            continue
        takes = selected(place.value or "", names)
        shown = ", ".join(takes) or "no interface"
        text = f"{place.value!r}{f' ({place.origin})' if place.origin else ''}: {shown}"
        yield _ifname_fault(state, place, text, name, stops=name not in takes)


def _not_managed(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """Judge without a wanted interface: a value is wrong that selects none, or one for itself."""
    if state.network.addresses is None:
        return
    names = candidates(state.network, oldest(state))
    fit = [name for name in by_itself(state.network, None) if not is_never(name)]
    for place in places(state, wanted):
        taken = selected(place.value or "", names)
        alone = [name for name in taken if nodes.others and is_local(state.network, name)]
        if not is_unset(place.value) and (alone or not taken):
            origin = f" ({place.origin})" if place.origin else ""
            what = f"{alone[0]}, which leads to no other machine" if alone else "no interface"
            yield Fault(
                subject=_about(place),
                found=f"{place.value!r}{origin}: {what}",
                wanted=f"an interface of the node: {', '.join(fit) or 'none leads to another one'}",
                fix=f"correct {place.origin or place.name}, or set network: auto in the inventory, "
                "and gpu-node deploy sets it on each node",
                fixable=False,
            )


def _about(place: Place) -> Shell | Path:
    """Return the place of a value as data: a kind of shell, or a file."""
    return Shell(place.name) if place.name in (SHELL, INTERACTIVE) else Path(place.name)


def _editor(place: Place) -> Who:
    return editor(place.origin) if place.origin else "user"


def _ifname_fault(
    state: NodeState, place: Place, text: str, name: str, cause: str = "", stops: bool = True
) -> Fault:
    if place.name == CONF:
        line = f"{IFNAME}=={name} in {CONF}"
    elif is_network_home(state.env):
        line = f"unset {IFNAME} in ~/.bashrc, which other nodes may share: {CONF} names it"
    else:
        line = f"export {IFNAME}='={name}' in ~/.bashrc"
    return Fault(
        subject=_about(place),
        found=text,
        wanted=f"={name}",
        cause=cause,
        fix=place.hand or line,
        who=_editor(place) if place.name != CONF and not is_network_home(state.env) else None,
        fixable=place.hand is None,
        stops=stops,
    )


@rule(
    "network.launcher-override",
    ("error", "warning"),
    between=True,
    step="env",
    under="network",
    always=True,
    key="network.interface",
    stops="several",
    why="deepspeed sends each NCCL variable of the launching shell to all nodes, and "
    "overrides their own values",
    manual="unset NCCL_SOCKET_IFNAME in the shell, and set it in /etc/nccl.conf of each node",
    repair="Writes a marked block in ~/.bashrc of the training user.",
)
def launcher_override(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """DeepSpeed's launcher would send this shell's NCCL_SOCKET_IFNAME to every node."""
    if is_deepspeed(wanted) and wanted.network is not None and not nodes.assumed:
        yield from _kept_in(state, wanted, nodes)
    elif is_deepspeed(wanted) or wanted.launcher is None or wanted.launcher.kind is None:
        yield from _would_be_sent(state, wanted, nodes)


def _kept_in(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    reported: set[str] = set()
    for place in shell_places(state, managed(state, wanted)):
        if is_unset(place.value):
            continue
        reported.add(place.origin)
        fix = place.hand or f"unset {IFNAME} in ~/.bashrc"
        yield _override_fault(place, fix, place.hand is None, stops=bool(_lost(place, nodes)))
    # A login shell reads some of these, deepspeed itself its own file; none of them is ours.
    for each in exported(state.env):
        elsewhere = each.path != BASHRC and each.place not in reported
        if each.name == IFNAME and elsewhere and not is_unset(each.value):
            fix = f"remove {IFNAME} from {each.place}"
            place = Place(each.path, each.value, each.place)
            yield _override_fault(place, fix, False, stops=bool(_lost(place, nodes)))


def _would_be_sent(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """Judge by the value of this shell against the right interface of each node that was asked."""
    value = (state.env.launcher or {}).get(IFNAME)
    if is_unset(value) or not (nodes.assumed or _has_deepspeed(state)):
        return
    if wrong := _lost(Place(SHELL, value), nodes):
        keys = "launcher: deepspeed" if wanted.network else "network: auto and launcher: deepspeed"
        deploy = f"set {keys} in the inventory: gpu-node deploy then writes {CONF} alone"
        # A job of DeepSpeed is to start; else this is what one would do.
        severity: Severity = "error" if nodes.assumed else "warning"
        fault = _override_fault(Place(SHELL, value), "", False, ", ".join(wrong), severity)
        yield replace(fault, deploy=deploy)


def _lost(place: Place, nodes: Nodes) -> list[str]:
    """Return the other nodes whose interface a value does not select."""
    return [
        name
        for name, link in nodes.once(carriers).items()
        if name != nodes.name
        and not is_right(nodes.states[name], IFNAME, place.value, f"={link.name}")
    ]


def _override_fault(
    place: Place,
    fix: str,
    fixable: bool,
    where: str = "every node",
    severity: Severity = "error",
    stops: bool = True,
) -> Fault:
    return Fault(
        subject=_about(place),
        found=f"{place.value!r}{f' ({place.origin})' if place.origin else ''}",
        wanted=f"no {IFNAME}, so that each node's {CONF} counts",
        cause="deepspeed exports each NCCL* variable of its shell to all nodes, "
        f"and overrides their own values: {where} would look for this node's interface",
        fix=fix,
        who=_editor(place),
        fixable=fixable,
        severity=severity,
        stops=stops,
    )


def _has_deepspeed(state: NodeState) -> bool:
    environments = state.nccl.environments.values()
    return are_read(state) and any(
        environment and "deepspeed" in environment.packages for environment in environments
    )


@rule(
    "network.mtu-differs",
    "warning",
    between=True,
    several=True,
    always=True,
    why="large packets are dropped on the way where a switch does not fragment them: small "
    "messages pass, and the first large all-reduce hangs",
    manual="set the same MTU on all nodes, also in the configuration of the interface",
    alone="Leave the node out of the job.",
)
def mtu_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The interface has another MTU than those of the other nodes."""
    fix = "ip link set {name} mtu {value}, and in the interface's configuration"
    yield from _differing(state, wanted, nodes, lambda link: link.mtu, fix)


@rule(
    "network.speed-differs",
    "warning",
    between=True,
    several=True,
    always=True,
    why="every step waits for the slowest node",
    manual="check what the interface and its switch port negotiated: ethtool NAME",
)
def speed_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The interface is slower or faster than those of the other nodes."""
    fix = "check what {name} and its switch port negotiated (ethtool {name}): the others have "
    fix += "{value} Mbit/s"
    yield from _differing(state, wanted, nodes, lambda link: link.speed, fix)


def _differing(
    state: NodeState,
    wanted: NodeWanted,
    nodes: Nodes,
    measure: Callable[[Link], int | None],
    fix: str,
) -> Iterator[Fault]:
    """Judge by what most nodes have, or the first of the inventory where none has more."""
    mine = link_of(state.network, carrier(state, wanted).name)
    if mine is None or measure(mine) is None:
        return
    values = {name: measure(link) for name, link in nodes.once(carriers).items()}
    values[nodes.name] = measure(mine)
    values = {name: value for name, value in values.items() if value is not None}
    ordered = [values[peer.name] for peer in nodes.peers if peer.name in values]
    usual = Counter(ordered).most_common(1)
    if usual and usual[0][0] != measure(mine):
        others = ", ".join(name for name, value in values.items() if value == usual[0][0])
        yield Fault(
            subject=Interface(mine.name),
            found=str(measure(mine)),
            wanted=f"{usual[0][0]}, as {others}",
            fix=fix.format(name=mine.name, value=usual[0][0]),
        )
