"""Ports that nodes of network namespaces try together, with real firewalls between them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.engine.finding import OR, Finding
from gpu_node.drift.engine.nodes import Nodes as Among
from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.ports import trying
from gpu_node.facts.ports.state import Firewall, PortsState, Tried, parse_firewall
from gpu_node.facts.ports.trying import try_ports
from gpu_node.facts.probe.peers import Peer, partners
from gpu_node.facts.probe.shell import SBIN, shell
from tests import firewalls
from tests.drift import states
from tests.verify import namespaces
from tests.verify.namespaces import INTERFACE, Nodes

FIRST, SECOND, ROUTER = NAMES = ("a100-01", "a100-02", "router")
BY_IPV6 = {name: f"fd99::{at}" for at, name in enumerate(NAMES, 1)}
RANGE = "32768-60999"
made = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("iptables"),
    reason="namespaces are made, with nft and iptables in them",
)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Three nodes; a test leaves no rule and no process on them."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        namespaces.running(NAMES, Path(folder), "python3") as running,
    ):
        for name, address in BY_IPV6.items():
            running.on(name, f"ip -6 address add {address}/64 dev {INTERFACE} nodad")
        yield running


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait a second for a connection, or the seconds given, and remove the rules of a test."""
    seconds = "LIFE_SECONDS, CONNECT_SECONDS, CARRY_SECONDS = {}"
    program = trying.PROGRAM.replace(
        seconds.format("20, 4, 3"), seconds.format(f"20, {getattr(request, 'param', 1)}, 1")
    )
    assert program != trying.PROGRAM
    monkeypatch.setattr(trying, "PROGRAM", program)
    # Where a node keeps silent, all of it is waited for; else a loaded machine may take its time.
    ready, answers = (2, 4) if request.node.get_closest_marker("slow") else (10, 15)
    monkeypatch.setattr(trying, "READY_SECONDS", ready)
    monkeypatch.setattr(trying, "TRY_SECONDS", answers)
    yield
    if "nodes" in request.fixturenames:
        for name in NAMES:
            request.getfixturevalue("nodes").on(name, "nft flush ruleset")


def tried(nodes: Nodes, *names: str, by: dict[str, str] | None = None) -> dict[str, PortsState]:
    """Return what nodes tried together, at addresses of theirs."""
    by = by or nodes.addresses
    found = try_ports({nodes.host(name): by[name] for name in names or (FIRST, SECOND)})
    return {
        name: PortsState(firewall=None, address=by[name], interface=INTERFACE, **each)
        for name, each in found.items()
    }


def to(found: dict[str, PortsState], name: str, peer: str) -> Tried:
    """Return how a node's connections to another one ended."""
    all_tried = found[name].tried
    assert all_tried is not None, found[name].untried
    return all_tried[peer]


OPEN = Tried(ports=("open", "open", "open"), large=True)


@made
def test_without_a_rule(nodes: Nodes) -> None:
    """All ports of the range are open, a large message passes, and no program is left."""
    found = tried(nodes, *NAMES)
    for name, each in found.items():
        assert each.tried == dict.fromkeys((other for other in NAMES if other != name), OPEN)
        assert (each.untried, each.first, each.last) == ("", 32768, 60999)
    assert programs(nodes) == 0


def programs(nodes: Nodes) -> int:
    """Return how many listeners are left, a moment later."""
    for _ in range(50):
        lines = sum(nodes.on(name, "cat /proc/net/tcp").count(" 0A ") for name in NAMES)
        if not lines:
            break
        time.sleep(0.05)
    return lines


def input_rule(rule: str, name: str = "input") -> str:
    """Return sh that makes a chain with a rule."""
    chain = "{ type filter hook input priority 0; }"
    made = f"add table inet t; add chain inet t {name} {chain}"
    return f"nft '{made}; add rule inet t {name} {rule}'"


# Without systemd it is asked itself.
NOT_BY_SYSTEMD = """printf '%s\n' '#!/bin/sh' 'firewall-cmd -q --state' >/usr/bin/systemctl
chmod 755 /usr/bin/systemctl
"""
SYN = "tcp flags & (syn|ack) == syn"


@made
@pytest.mark.parametrize(
    ("script", "ports"),
    [
        (input_rule(f"ct state new tcp dport {RANGE} drop"), "dropped dropped dropped"),
        (input_rule("ct state new tcp dport 42178-60999 drop"), "open dropped dropped"),
        (input_rule(f"{SYN} reject with icmp type host-prohibited"), "rejected"),
        (input_rule(f"{SYN} reject with icmp type net-prohibited"), "unreachable"),
        (input_rule(f"{SYN} reject with tcp reset"), "reset"),
        ("iptables -A INPUT -p tcp --syn -j REJECT", "reset"),
        ("iptables -P INPUT DROP; iptables -A INPUT -p tcp --dport 22 -j ACCEPT", None),
        (f"{input_rule('tcp dport 22 drop', 'banned')}; {input_rule(f'{SYN} drop')}", "dropped"),
    ],
    ids=[
        *("the range", "a part", "host-prohibited", "net-prohibited", "reset", "iptables"),
        *("policy", "two chains"),
    ],
)
def test_what_a_firewall_does(nodes: Nodes, script: str, ports: str | None) -> None:
    """It is seen from the other node; the command that the finding prints lets it pass."""
    let_pass_as_printed(nodes, script, ports, nodes.addresses)


# Between namespaces an answer comes before the first SYN is sent: the second one counts.
@made
@pytest.mark.parametrize("quick", [2], indirect=True, ids=["later"])
@pytest.mark.parametrize(
    ("script", "ports"),
    [
        (input_rule(f"meta nfproto ipv6 {SYN} drop"), "dropped"),
        (input_rule(f"{SYN} reject with icmpx type admin-prohibited"), "prohibited"),
        (input_rule(f"{SYN} reject with icmpv6 type addr-unreachable"), "rejected"),
        ("ip6tables -A INPUT -p tcp --syn -j REJECT --reject-with no-route", "unreachable"),
        ("ip6tables -A INPUT -p tcp --syn -j REJECT", "reset"),
        (
            "ip6tables -P INPUT DROP; ip6tables -A INPUT -p ipv6-icmp -j ACCEPT",
            None,
        ),
    ],
    ids=["drop", "prohibited", "addr-unreachable", "no-route", "ip6tables", "policy"],
)
def test_what_a_firewall_does_by_ipv6(nodes: Nodes, script: str, ports: str | None) -> None:
    """Its kernel calls a rejection by other names."""
    let_pass_as_printed(nodes, script, ports, BY_IPV6)


def let_pass_as_printed(nodes: Nodes, script: str, ports: str | None, by: dict[str, str]) -> None:
    """Block connections to the second node, and type in what its finding prints.

    A kernel sends one ICMP message a second to an address: one of three rejections may come late.
    """
    nodes.on(
        SECOND, "echo 0 | tee /proc/sys/net/ipv4/icmp_ratelimit /proc/sys/net/ipv6/icmp/ratelimit"
    )
    nodes.on(SECOND, script)
    found = tried(nodes, by=by)
    if ports is not None:
        assert to(found, FIRST, SECOND).ports == tuple((f"{ports} " * 3).split()[:3])
        assert to(found, SECOND, FIRST) == OPEN
    else:  # answers are dropped, too
        assert set(to(found, FIRST, SECOND).ports) == {"dropped"}
    there = firewall(nodes, SECOND)
    assert {each.split()[2].lower() for each in there.input} <= {"input", "banned"}
    assert there.output == ()
    assert firewall(nodes, FIRST) == Firewall()
    nodes.on(SECOND, printed(nodes, found))
    assert to(tried(nodes, by=by), FIRST, SECOND) == OPEN


def printed(nodes: Nodes, found: dict[str, PortsState]) -> str:
    """Return the command that the finding about the second node prints."""
    finding = reported(nodes, found, "ports.blocked", SECOND)
    return finding.fix.split(OR)[-1].split("; then ")[0]


def reported(nodes: Nodes, found: dict[str, PortsState], rule: str, name: str) -> Finding:
    """Return the one finding of a rule about a node."""
    states_ = {
        name: states.state().model_copy(
            update={"ports": each.model_copy(update={"firewall": firewall(nodes, name)})}
        )
        for name, each in found.items()
    }
    peers = tuple(Peer(name=name, address=nodes.addresses[name]) for name in states_)
    among = Among(name, peers, states_)
    (finding,) = RULES[rule].findings(states_[name], states.wanted(), among)
    return finding


@made
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("apt-get"), reason="its package is unpacked")
@pytest.mark.parametrize(
    ("tool", "starts", "says", "ends"),
    [
        ("ufw", firewalls.UFW, "ufw allow from ", "ufw disable"),
        (
            "firewalld",
            NOT_BY_SYSTEMD + firewalls.FIREWALLD,
            "firewall-cmd --zone=public --add-rich-rule=",
            "kill $(cat /run/own.pid); kill $(cat /run/dbus/pid)",
        ),
    ],
    ids=["ufw", "firewalld"],
)
def test_a_tool(nodes: Nodes, tool: str, starts: str, says: str, ends: str) -> None:
    """It is named, and the printed words let the others in; what they write is the test's."""
    firewalls.given(nodes, SECOND)
    try:
        nodes.on(SECOND, starts)
        assert firewall(nodes, SECOND).tools == (tool,)
        for by in (nodes.addresses, BY_IPV6):
            found = tried(nodes, by=by)
            assert not {"open", "unknown"} & {*to(found, FIRST, SECOND).ports}
            command = printed(nodes, found)
            assert command.startswith(says)
            assert by[FIRST] in command
            nodes.on(SECOND, command)
            assert to(tried(nodes, by=by), FIRST, SECOND) == OPEN
    finally:
        nodes.on(SECOND, f"{ends}; {firewalls.BACK}")


def firewall(nodes: Nodes, name: str) -> Firewall:
    """Return what the probe says of a node's firewall."""
    return parse_firewall(nodes.on(name, SBIN + shell("ports/firewall")))


@made
def test_without_the_program(nodes: Nodes) -> None:
    """The kernel has rules that nothing reads: they are unknown, as in a container without nft."""
    nodes.on(SECOND, input_rule(f"tcp dport {RANGE} drop"))
    nodes.before[SECOND] = ["unshare", "--mount"]
    try:
        hidden = 'mount --bind /dev/null "$(command -v nft)"\n'
        text = nodes.on(SECOND, SBIN + hidden + shell("ports/firewall"))
    finally:
        nodes.before[SECOND] = []
    assert parse_firewall(text) == Firewall(closed=True)


@made
def test_firewalld_by_its_table(nodes: Nodes) -> None:
    """The zone of an interface, and that of all others; the chain of a zone that only accepts."""
    nodes.on(
        FIRST,
        """nft -f - <<'END'
table inet firewalld {
  chain filter_INPUT { type filter hook input priority 10; jump filter_INPUT_ZONES; }
  chain filter_INPUT_ZONES { iifname "train0" goto filter_IN_internal; goto filter_IN_public; }
  chain filter_IN_internal { accept; }
  chain filter_IN_public { reject with icmpx type admin-prohibited; }
  chain filter_OUTPUT { type filter hook output priority 10; accept comment "drop nothing"; }
}
END
""",
    )
    found = firewall(nodes, FIRST)
    assert found.zones == {"-": "public", "train0": "internal"}
    assert (found.input, found.output) == (("inet firewalld filter_INPUT",), ())


@made
def test_a_black_hole(nodes: Nodes) -> None:
    """A router with a smaller MTU on the way, whose ICMP is dropped: small messages pass alone."""
    nodes.on(
        ROUTER,
        "echo 1 >/proc/sys/net/ipv4/ip_forward; "
        f"echo 0 >/proc/sys/net/ipv4/conf/{INTERFACE}/send_redirects; "
        f"ip route add {nodes.addresses[SECOND]}/32 dev {INTERFACE} mtu lock 1300; "
        "nft 'add table ip t; add chain ip t output { type filter hook output priority 0; }; "
        "add rule ip t output ip protocol icmp drop'",
    )
    nodes.on(FIRST, f"ip route add {nodes.addresses[SECOND]}/32 via {nodes.addresses[ROUTER]}")
    try:
        found = tried(nodes)
    finally:
        nodes.on(FIRST, f"ip route delete {nodes.addresses[SECOND]}/32")
    assert to(found, FIRST, SECOND) == Tried(ports=("open", "open", "open"), large=False)
    assert to(found, SECOND, FIRST) == OPEN
    finding = reported(nodes, found, "network.path-mtu", FIRST)
    assert finding.found == f"to {SECOND}: 512 bytes pass, 256 KiB do not"


@made
def test_nothing_else_is_connected_to(nodes: Nodes) -> None:
    """A rule counts packets to all ports of a node but those from which its kernel chooses."""
    nodes.on(SECOND, input_rule(f"tcp flags & (syn|ack) == syn tcp dport != {RANGE} counter"))
    nodes.on(
        SECOND,
        f"nft add rule inet t input tcp flags '& (syn|ack) == syn' tcp dport {RANGE} counter",
    )
    assert to(tried(nodes), FIRST, SECOND) == OPEN
    other, own = nodes.on(SECOND, "nft list chain inet t input | grep counter").splitlines()
    assert "packets 0 " in other
    assert "packets 3 " in own


def asked_beside(nodes: Nodes, script: str) -> dict[str, PortsState]:
    """Return what is found where the Python of the second node is a script."""
    folder = nodes.folder / "odd"
    folder.mkdir(exist_ok=True)
    (folder / "python3").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "python3").chmod(0o755)
    nodes.before[SECOND] = ["unshare", "--mount", "sh", "-c", ODD, str(folder / "python3")]
    try:
        found = tried(nodes, *NAMES)
    finally:
        nodes.before[SECOND] = []
    assert to(found, FIRST, ROUTER) == to(found, ROUTER, FIRST) == OPEN
    return found


ODD = 'mount --bind "$0" "$(readlink -f /usr/bin/python3)" && exec "$@"'


@made
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "its program ended: no output"),
        ("echo Segmentation fault; exit 139", "its program ended: Segmentation fault"),
        ("exec yes", "it sends more than an answer"),
        pytest.param(
            "echo ready 1 65535 22 23 24; exec sleep 9",
            "its program does not answer within 2 s",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "exec sleep 9", "its program does not answer within 2 s", marks=pytest.mark.slow
        ),
    ],
    ids=["ends", "fails", "without end", "other ports", "silent"],
)
def test_a_hostile_node(nodes: Nodes, script: str, why: str) -> None:
    """It is untried, within seconds, and the others are not disturbed."""
    began = time.monotonic()
    found = asked_beside(nodes, script)
    assert (found[SECOND].untried, found[SECOND].tried) == (why, None)
    assert time.monotonic() - began < 6
    assert reported(nodes, found, "ports.untried", SECOND).found == f"not tried: {why}"


ASLEEP = r"""exec perl -MSocket -e '$| = 1; for (40001, 50001, 60001) {
  socket(my $s, PF_INET, SOCK_STREAM, 0);
  bind($s, sockaddr_in($_, INADDR_ANY)) or die; listen($s, 9);
  push @s, $s; } print "ready 32768 60999 40001 50001 60001\n"; sleep 9'"""


@made
@pytest.mark.slow
def test_a_node_that_never_accepts(nodes: Nodes) -> None:
    """Its kernel answers: the ports are open, and nothing is known of large messages.

    What a start file prints before has no end of line.
    """
    found = asked_beside(nodes, f"printf 'printed by ~/.bashrc '; {ASLEEP}")
    assert to(found, FIRST, SECOND) == Tried(ports=("open", "open", "open"))
    assert found[SECOND].untried.startswith("its program does not answer")


@made
@pytest.mark.slow
def test_a_node_that_lies(nodes: Nodes) -> None:
    """Ports where it does not listen, and no confirmation: its failures count for nothing."""
    says = "echo ready 32768 60999 40001 50001 60001; sed -n '/^go/{s//tried/p;q}'; exec sleep 9"
    found = asked_beside(nodes, says)[SECOND]
    assert found.tried == {
        name: Tried(ports=("unknown", "unknown", "unknown"), why="no answer")
        for name in (FIRST, ROUTER)
    }


PYTHONS = sorted(
    {
        path.resolve()
        for pattern in (
            "usr/bin/python[23]*",
            "usr/libexec/platform-python",
            "root/.pyenv/versions/*/bin/python",
        )
        for path in Path("/").glob(pattern)
        if re.fullmatch(r"python[0-9.]*|platform-python", path.name)
    }
)


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.name)
def test_each_python_that_is_here(python: Path) -> None:
    """A program of it, and one of this Python: each listens, and reaches the other."""
    ends = {"127.0.9.1": str(python), "127.0.9.2": sys.executable}
    running: dict[str, Any] = {
        address: subprocess.Popen(
            [python, "-E", "-s", "-S", "-B", "-c", trying.PROGRAM, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for address, python in ends.items()
    }
    ready = {address: each.stdout.readline().split() for address, each in running.items()}
    for address, each in running.items():
        (other,) = ends.keys() - {address}
        each.stdin.write(f"{other} {' '.join(ready[other][3:])}\ngo\n")
        each.stdin.flush()
    opened = {*(f"try 0 {at} open\n" for at in range(3)), "carry 0 passed\n", "tried\n"}
    for each in running.values():
        assert {each.stdout.readline() for _ in range(5)} == opened
    for each in running.values():
        assert each.communicate(timeout=5) == ("listens\n", None)
        assert each.returncode == 0


@pytest.mark.parametrize(("count", "each"), [(2, 1), (16, 15), (17, 5), (100, 7)])
def test_each_is_tried_by_some(count: int, each: int) -> None:
    """All pairs of few nodes; of many each node tries, and is tried by, some, and never itself."""
    pairs = [(here, other) for here in range(count) for other in partners(count, here)]
    assert len({*pairs}) == len(pairs) == count * each
    assert {other for _, other in pairs} == {*range(count)}
    assert all(here != other for here, other in pairs)
