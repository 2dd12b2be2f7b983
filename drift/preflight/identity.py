"""Pre-flight of identity: is it a node already, or a clone of one, and what it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_node.drift.network.interfaces import is_never
from gpu_node.drift.preflight.row import Newcomer, Row, plain, unknown
from gpu_node.facts.network.state import NetworkState
from gpu_node.facts.preflight.reachability import MemberState
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.inventories.fields.addresses import is_loopback

Members = Mapping[str, MemberState | str]
_NEW_ID = "rm /etc/machine-id; systemd-machine-id-setup; then reboot"


def judged(found: NewcomerState, members: Members, newcomer: Newcomer) -> Iterator[Row]:
    """Yield the rows about who the server is."""
    yield from _unasked(members)
    yield _machine_id(found)
    twins = [row for row in _twins(found, members, newcomer) if row is not None]
    asked = [name for name, state in members.items() if not isinstance(state, str)]
    if twins or asked or not members:
        every = "no" if len(asked) == len(members) else f"none of {', '.join(asked)}"
        # Without a driver the UUID of a GPU is unknown.
        by = "" if found.uuids else ", by machine-id and address"
        yield from twins or [Row("a node already", every + by)]
    yield _hostname(found, newcomer)
    names = [row for row in _names(found, members, newcomer) if row is not None]
    yield from names or [Row(f"name {newcomer.name}", _meaning(found, newcomer))]


def _unasked(members: Members) -> Iterator[Row]:
    for name, state in members.items():
        if isinstance(state, str):
            why = f"{state}: cannot check whether it is the same machine, or connects"
            yield Row(name, "not asked", "warning", why, "run again when it answers")


def _machine_id(found: NewcomerState) -> Row:
    if found.identity is None:
        return unknown("machine-id", found.unreadable, "preflight.identity", "stop")
    if not found.identity.machine_id:
        why = "systemd, DHCP and logs identify machines by it"
        return Row("machine-id", "none", "warning", why, "systemd-machine-id-setup")
    return Row("machine-id", found.identity.machine_id)


def _twins(found: NewcomerState, members: Members, newcomer: Newcomer) -> Iterator[Row | None]:
    """Yield a row for each node that is the same machine, a clone of it, or has its address.

    What the server itself does not report is a row only where what it reports is of no node.
    """
    asked = {name: state for name, state in members.items() if not isinstance(state, str)}
    rows = [_twin(found, name, state, newcomer) for name, state in asked.items()]
    yield from rows
    if asked and found.uuids is None and not any(row and row.verdict == "stop" for row in rows):
        yield unknown("a node already", found.unreadable, "preflight.uuids")


def _twin(found: NewcomerState, name: str, state: MemberState, newcomer: Newcomer) -> Row | None:
    subject = "a node already"
    unread = [key for key in ("identity", "uuids") if getattr(state, key) is None]
    same_id = _id(found) != "" and _id(found) == _id(state)
    gpus = sorted({*(found.uuids or ())} & {*(state.uuids or ())})
    address = _shared(found, state, name, newcomer)
    if gpus or (same_id and address):
        by = [f"GPU {gpus[0]}"] if gpus else []
        by += [f"machine-id {_id(found)}"] if same_id else []
        by += [f"address {address}"] if address else []
        fix = f"onboard it as {name}; or first: gpu-node remove {name}"
        return Row(subject, f"it is {name}", "stop", f"they have the same {', '.join(by)}", fix)
    if same_id and not (found.uuids and state.uuids):
        why = f"the machine-id is {name}'s, at another address, and the GPUs cannot be compared"
        fix = f"if it is a copy of its disk: {_NEW_ID}; if it is {name}: onboard it as {name}"
        return Row(subject, f"{name}, or a clone of it", "stop", why, fix)
    if same_id:
        why = f"the machine-id is {name}'s, with other GPUs and addresses: a copy of its disk"
        return Row(subject, f"a clone of {name}", "stop", why, _NEW_ID)
    if address:
        why = f"{address} is {name}'s, too: the first one to answer is taken for both"
        return Row(subject, f"the address of {name}", "stop", why, "give one of them another")
    if unread or state.network.addresses is None:
        section = {"identity": "preflight.identity", "uuids": "preflight.uuids"}.get(
            next(iter(unread), ""), "network.addresses"
        )
        return unknown(f"{subject}: {name}", state.unreadable, section)
    return None


def _id(state: NewcomerState | MemberState) -> str:
    return state.identity.machine_id if state.identity else ""


def _shared(found: NewcomerState, state: MemberState, name: str, newcomer: Newcomer) -> str:
    """Return the address that leads to both; empty where there is none.

    Those that each machine has for itself alone, for containers or its board, are often the same.
    """
    theirs = next((each.address for each in newcomer.nodes if each.name == name), "")
    own = _own(found.network)
    if theirs and plain(theirs) in own:
        return theirs
    return next((each for each in _own(state.network) if newcomer.is_at(each)), "")


def _own(network: NetworkState) -> list[str]:
    return [
        plain(each.address)
        for each in network.addresses or ()
        if each.scope == "global" and not is_never(each.interface)
    ]


def _hostname(found: NewcomerState, newcomer: Newcomer) -> Row:
    if found.identity is None:
        return unknown("hostname", found.unreadable, "preflight.identity")
    own = found.identity.hostname
    if own in (newcomer.name, newcomer.name.partition(".")[0]) or own.startswith(
        f"{newcomer.name}."
    ):
        return Row("hostname", own)
    why = f"its logs and prompts show {own or 'nothing'}, the cluster uses {newcomer.name}"
    fix = f"hostnamectl set-hostname {newcomer.name}"
    return Row("hostname", own or "none", "warning", why, fix)


def _names(found: NewcomerState, members: Members, newcomer: Newcomer) -> Iterator[Row | None]:
    """Yield a row for each place where the name means another machine, or that gives no answer."""
    name, subject = newcomer.name, f"name {newcomer.name}"
    if newcomer.here is None:
        yield Row(subject, "unknown here", "warning", "this machine's resolver gave no answer")
    else:
        yield _elsewhere(newcomer, "here", newcomer.here, ())
    own = found.names.names.get(name) if found.names else None
    if own is None:
        yield unknown(subject, found.unreadable, "ssh.names")
    else:
        mine = {plain(each.address) for each in found.network.addresses or ()}
        yield _elsewhere(newcomer, "on itself", own, tuple(mine))
    for member, state in members.items():
        if isinstance(state, str):
            continue
        resolved = state.names.names.get(name) if state.names else None
        if resolved is None:
            yield unknown(f"{subject} on {member}", state.unreadable, "ssh.names")
        else:
            yield _elsewhere(newcomer, f"on {member}", resolved, ())


def _elsewhere(
    newcomer: Newcomer, where: str, resolved: tuple[str, ...], own: tuple[str, ...]
) -> Row | None:
    """Return the row of a name that leads somewhere else, by the first of its addresses.

    On the server itself each of its own is right: Debian has 127.0.1.1, which the mesh corrects.
    """
    first = next(iter(resolved), None)
    itself = where == "on itself"
    if first is None or newcomer.is_at(first) or (itself and plain(first) in own):
        return None
    if itself and is_loopback(plain(first)):
        return None
    why = (
        f"{where} the name {newcomer.name} resolves to {', '.join(resolved)}, not "
        f"{newcomer.address}"
    )
    fix = f"give it another name, or correct DNS or the line in /etc/hosts {where}"
    return Row(f"name {newcomer.name}", f"{first} {where}", "stop", why, fix)


def _meaning(found: NewcomerState, newcomer: Newcomer) -> str:
    own = found.names.names.get(newcomer.name, ()) if found.names else ()
    resolved = [*own, *(newcomer.here or ())]
    return resolved[0] if resolved else "resolves to no other host"
