"""Pre-flight check: everything that a server is asked before anything on it is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_node.facts.driver import nvlink
from gpu_node.facts.driver import state as driver
from gpu_node.facts.driver.nvlink import NvLinks, Switches
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.network import state as network
from gpu_node.facts.network.state import NetworkState
from gpu_node.facts.packages import sources as package_sources
from gpu_node.facts.packages.sources import Packages
from gpu_node.facts.preflight import newcomer
from gpu_node.facts.preflight import reachability as reach
from gpu_node.facts.preflight.newcomer import Account, Identity, Runfile, Space, System
from gpu_node.facts.preflight.reachability import Scan
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh.state import Names, parse_names

# The clock is read at both ends of the probe: the times of the asking machine then bound the skew.
_BEGIN, _END = Section("preflight.begin", "date +%s"), Section("preflight.end", "date +%s")


class NewcomerState(State):
    """Everything about a server that the pre-flight check judges.

    `begin` and `end` are its clock, in seconds since 1970, when the probe began and ended. `names`
    are the addresses that its resolver returns for its own name, `scans` the host keys it sees at
    each node's address. `unreadable` has the reason for each unreadable section.
    """

    system: System | None
    account: Account | None
    space: tuple[Space, ...] | None
    begin: int | None
    end: int | None
    identity: Identity | None
    uuids: tuple[str, ...] | None
    switches: Switches | None
    nvlinks: NvLinks | None
    runfile: Runfile | None
    packages: Packages
    driver: DriverState
    network: NetworkState
    names: Names | None
    scans: dict[str, Scan] | None
    unreadable: dict[str, str]


def sections(
    own: Peer,
    members: Sequence[Peer] = (),
    pinned: Mapping[str, Sequence[str]] | None = None,
    paths: Iterable[str] = (),
    data: Mapping[str, Any] | None = None,
) -> tuple[Section, ...]:
    """Return the sections for a server that is to become `own` among `members`.

    `pinned` are the members' host keys by name, as in known_hosts; `paths` are folders that the
    inventory wants there, whose space is read. `data` is what the inventory wants of it: packages
    are asked for through its proxy.
    """
    return (
        _BEGIN,
        *newcomer.sections(paths),
        *nvlink.SECTIONS,
        *package_sources.sections(data),
        *driver.SECTIONS,
        *network.sections(ProbeRequest(nodes=members), most=len(members) or 1),
        reach.names(own),
        reach.scans(members, pinned or {}),
        _END,
    )


def parse(readings: Readings) -> NewcomerState:
    """Return the server's state from the answers of the probe."""
    found = {
        "system": readings.take("preflight.system", newcomer.parse_system),
        "account": readings.take("preflight.account", newcomer.parse_account),
        "space": readings.take("preflight.space", newcomer.parse_space),
        "begin": readings.take("preflight.begin", int),
        "end": readings.take("preflight.end", int),
        "identity": readings.take("preflight.identity", newcomer.parse_identity),
        "uuids": readings.take("preflight.uuids", newcomer.parse_uuids),
        "switches": readings.take("preflight.switches", nvlink.parse_switches),
        "nvlinks": readings.take("preflight.nvlink", nvlink.parse_nvlink),
        "runfile": readings.take("preflight.runfile", newcomer.parse_runfile),
        "packages": package_sources.parse(readings),
        "driver": driver.parse(readings),
        "network": network.parse(readings),
        "names": readings.take("ssh.names", parse_names),
        "scans": readings.take("preflight.scans", reach.parse_scans),
    }
    unreadable = {each.section: each.reason for each in readings.unread}
    return NewcomerState.model_validate({**found, "unreadable": unreadable})


SECTIONS = sections(Peer(name="newcomer", address="192.0.2.1"))
