"""Connects the lab's machines by a separate bridge, made with plain `ip`.

podman's networks differ by release, and one killed half-way keeps addresses and bridges for good.
"""

import zlib
from ipaddress import ip_interface

from gpu_node.lab import roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root, run

BRIDGE = roster.NETWORK
GATEWAY = ip_interface("10.168.144.1/24")
LABEL = "gpu-node.lab=1"

# With docker installed, FORWARD drops the traffic of every other bridge.
ALLOW = f"FORWARD -i {BRIDGE} -o {BRIDGE} -j ACCEPT"
IPTABLES = "command -v iptables >/dev/null 2>&1 || exit 0"

MAKE = f"""\
ip link show {BRIDGE} >/dev/null 2>&1 || ip link add {BRIDGE} type bridge
ip link set {BRIDGE} alias {LABEL}
ip address replace {GATEWAY} dev {BRIDGE}
ip link set {BRIDGE} up
{IPTABLES}
iptables -S FORWARD 2>/dev/null | grep -q -- '-P FORWARD DROP' || exit 0
iptables -C {ALLOW} 2>/dev/null || iptables -I {ALLOW}
"""
CONNECT = f"""\
port=$1 pid=$2 interface=$3 address=$4 mac=$5
ip link delete "$port" 2>/dev/null || :
ip link add "$port" type veth peer name "$interface" address "$mac" netns "$pid"
ip link set "$port" master {BRIDGE} up
nsenter --target "$pid" --net sh -euc '
    ip link set lo up
    ip address add "$2" dev "$1"
    ip link set "$1" up
    ip route add default via {GATEWAY.ip}
' sh "$interface" "$address"
"""
REMOVE = f"""\
for port; do
    ip link delete "$port" 2>/dev/null || :
done
ip link show {BRIDGE} >/dev/null 2>&1 || exit 0
ip link delete {BRIDGE}
{IPTABLES}
iptables -D {ALLOW} 2>/dev/null || :
"""


def ensure() -> None:
    """Make the bridge; refuse if another interface has the lab's addresses."""
    routes = run(["ip", "-4", "route", "show", roster.SUBNET]).stdout
    if taken := interface_of_other(routes):
        raise LabError(f"{roster.SUBNET} is in use on this machine by the interface {taken}")
    as_root(["sh", "-eus"], stdin=MAKE)


def interface_of_other(routes: str) -> str:
    """The interface, not ours, that `ip route show` names; empty if there is none."""
    for words in map(str.split, routes.splitlines()):
        if "dev" in words and words[words.index("dev") + 1] != BRIDGE:
            return words[words.index("dev") + 1]
    return ""


def connect(machine: str, pid: int, interface: str, address: str) -> None:
    """Give the machine that runs as `pid` its interface, address and way out.

    The MAC is fixed: neighbours remember it longer than a reset takes.
    """
    prefixed = f"{address}/{GATEWAY.network.prefixlen}"
    values = [port(machine), str(pid), interface, prefixed, mac_address(address)]
    as_root(["sh", "-eus", *values], stdin=CONNECT)


def port(machine: str) -> str:
    """The name of the host's end of a machine's cable: at most 15 characters, of this lab alone."""
    return f"lab-{zlib.crc32(f'{BRIDGE} {machine}'.encode()):08x}"


def remove() -> None:
    """Remove the bridge and the ports, if they exist."""
    ports = [port(machine) for machine in (*roster.NODES, roster.MIRROR)]
    as_root(["sh", "-eus", *ports], stdin=REMOVE)


def mac_address(address: str) -> str:
    """A locally administered MAC made from an IPv4 address."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])
