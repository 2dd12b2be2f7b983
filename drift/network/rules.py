"""Network rules: the interface is there and fit, and NCCL takes it, wherever its value is from."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpu_node.drift.engine.finding import Severity, Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Interface, Path, Shell
from gpu_node.drift.env.bashrc import BASHRC, is_network_home, remove_first
from gpu_node.drift.env.user_settings import editor, exported
from gpu_node.drift.network.ifname import (
    CONF,
    INTERACTIVE,
    SHELL,
    Place,
    carrier,
    chosen,
    is_deepspeed,
    is_left_to_conf,
    is_right,
    managed,
    may_be_deepspeed,
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
from gpu_node.facts.network.state import Link
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.wanted import NodeWanted


@check("network.interface-gone")
def interface_gone(at: At) -> Iterator[Fault]:
    state, name = at.node.network, at.wanted.network.interface if at.wanted.network else AUTO
    if state.links is None or name == AUTO or link_of(state, name):
        return
    known = [link.name for link in state.links if link.kind != "loopback"]
    names = candidates(state, oldest(at.node))
    values = [place.value for place in places(at.node, at.wanted)]
    yield Fault(
        subject=Interface(name),
        found=f"no such interface; there are {', '.join(known) or 'none'}",
        wanted=name,
        stops=any(not is_unset(each) and not selected(each or "", names) for each in values),
    )


@check("network.address-missing")
def address_missing(at: At) -> Iterator[Fault]:
    if at.wanted.network is None:
        return
    choice = chosen(at.node, at.wanted)
    if at.wanted.network.interface == AUTO:
        if choice.name is None and choice.known:
            needed = f"an interface that has {at.wanted.address}"
            yield Fault(at.wanted.address, choice.why, needed)
    elif choice.known:
        name, ends = at.wanted.network.interface, at.nodes.once(managed_ends)
        if why := unreached(at.nodes.name, at.node.network, name, ends):
            needed = "an interface that reaches those of the other nodes"
            yield Fault(Interface(name), why[0], needed, severity=why[1])


@check("network.interface-down")
def interface_down(at: At) -> Iterator[Fault]:
    link = link_of(at.node.network, carrier(at.node, at.wanted).name)
    if link is None or not is_down(link):
        return
    yield Fault(
        subject=Interface(link.name),
        found="up, without a carrier" if link.up else "down",
        wanted="up",
        names={"NAME": link.name},
    )


@check("network.subnet-shared")
def subnet_shared(at: At) -> Iterator[Fault]:
    name = carrier(at.node, at.wanted).name
    for other, subnet in sharing(at.node.network, name) if name else ():
        yield Fault(
            subject=Interface(name or ""),
            found=f"{other} is in {subnet}, too",
            wanted=f"{subnet} on one interface",
            fix=f"bond {name} with {other}, or give {other} a separate subnet",
        )


@check("network.rp-filter")
def rp_filter(at: At) -> Iterator[Fault]:
    name = carrier(at.node, at.wanted).name
    for other, net in sharing(at.node.network, name) if name else ():
        rows = (row.device for row in at.node.network.table or () if row.network == net)
        sends = next((device for device in rows if device in (name, other)), None)
        drops = other if sends == name else name
        if sends and drops in (at.node.network.strict or ()):
            yield Fault(
                subject=Interface(name or ""),
                found=f"{drops} drops packets from {net}, which is reached over {sends}",
                wanted=f"{net} on one interface, or a loose filter (2)",
                names={"NAME": drops or ""},
            )


def _is_judged(state: NodeState, wanted: NodeWanted) -> str | None:
    """Return the interface that must be selected; None where nothing can be judged."""
    return chosen(state, wanted).name if wanted.network is not None else None


@check("network.ifname-missing")
def ifname_missing(at: At) -> Iterator[Fault]:
    name = _is_judged(at.node, at.wanted)
    if name is None:
        return
    version = oldest(at.node)
    nccl = f"NCCL {'.'.join(map(str, version))}" if version else "NCCL"
    takes = ", ".join(by_itself(at.node.network, version)) or "none"
    for place in places(at.node, at.wanted):
        if is_unset(place.value):
            cause = f"{nccl} would choose {takes} itself, and others when the node gets more"
            stops = name not in by_itself(at.node.network, version)
            yield _ifname_fault(at, place, "not set", name, cause, stops)


@check("network.ifname-wrong")
def ifname_wrong(at: At) -> Iterator[Fault]:
    if at.wanted.network is None:
        yield from _not_managed(at.node, at.wanted, at.nodes)
        return
    name = _is_judged(at.node, at.wanted)
    if name is None:
        return
    names = candidates(at.node.network, oldest(at.node))
    for place in places(at.node, at.wanted):
        if is_unset(place.value) or is_right(at.node, IFNAME, place.value, f"={name}"):
            continue
        takes = selected(place.value or "", names)
        shown = ", ".join(takes) or "no interface"
        text = f"{place.value!r}{f' ({place.origin})' if place.origin else ''}: {shown}"
        yield _ifname_fault(at, place, text, name, stops=name not in takes)


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
    at: At, place: Place, text: str, name: str, cause: str = "", stops: bool = True
) -> Fault:
    state, wanted = at.node, at.wanted
    if place.name == CONF:
        line = f"{IFNAME}=={name} in {CONF}"
    elif is_network_home(state.env):
        line = f"unset {IFNAME} in ~/.bashrc, which other nodes may share: {CONF} names it"
    elif is_left_to_conf(state, wanted):
        line = f"unset {IFNAME} in ~/.bashrc: deepspeed would send it to all nodes, and {CONF} "
        line += "names it"
    else:
        line = remove_first(state.env, IFNAME, f"={name}")
        line += f"export {IFNAME}='={name}' at the top of ~/.bashrc"
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


@check("network.launcher-override")
def launcher_override(at: At) -> Iterator[Fault]:
    if is_deepspeed(at.wanted) and at.wanted.network is not None and not at.nodes.assumed:
        yield from _kept_in(at.node, at.wanted, at.nodes)
    elif is_deepspeed(at.wanted) or may_be_deepspeed(at.node, at.wanted):
        yield from _would_be_sent(at.node, at.wanted, at.nodes)


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
    if is_unset(value):
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
        also=f"{where} would look for this node's interface",
        fix=fix,
        who=_editor(place),
        fixable=fixable,
        severity=severity,
        stops=stops,
    )


@check("network.mtu-differs")
def mtu_differs(at: At) -> Iterator[Fault]:
    fix = "ip link set {name} mtu {value}, and in the interface's configuration"
    yield from _differing(at.node, at.wanted, at.nodes, lambda link: link.mtu, fix)


@check("network.speed-differs")
def speed_differs(at: At) -> Iterator[Fault]:
    fix = "check what {name} and its switch port negotiated (ethtool {name}): the others have "
    fix += "{value} Mbit/s"
    yield from _differing(at.node, at.wanted, at.nodes, lambda link: link.speed, fix)


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
