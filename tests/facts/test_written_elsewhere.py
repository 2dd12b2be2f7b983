"""What one node says never reaches another's files or commands, but for words of one form."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.engine.check import check
from gpu_node.drift.ssh import mesh
from gpu_node.facts.env import state as env
from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.network import state as network
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.managed_block import Block, Own
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Reading, Readings, Unreadable
from gpu_node.facts.ssh import state as ssh
from tests.drift import states

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPb01Cgp7w8CmSCXX0S/3NsMWmeI1c6ZkQOOpwc48wdW"
HOSTILE = '*",cert-authority,command="id",no-pty ' + KEY
BLOB = KEY.split()[1]
EVIL = Peer(name="v100-01", address="192.0.2.11")


def encoded(kind: str) -> str:
    """Return what begins as a key of a type does, in base64."""
    raw = kind.encode()
    return base64.b64encode(len(raw).to_bytes(4, "big") + raw + b"\0\0\0\1x").decode()


GOOD_KEYS = [KEY, *(f"{kind} {encoded(kind)}" for kind in checked.KEY_TYPES)]
BAD_KEYS = [
    "",
    HOSTILE,
    f"{KEY.split()[0]}",
    f"@cert-authority {KEY}",
    f"ssh-rsa {BLOB}",  # a key of another type
    f"ssh-dss {encoded('ssh-dss')}",
    f"ssh-ed25519-cert-v01@openssh.com {encoded('ssh-ed25519-cert-v01@openssh.com')}",
    f"ssh-ed25519 {BLOB[:-3]}*==",
    f"ssh-ed25519 {BLOB[:-3]}",
    "ssh-ed25519 " + base64.b64encode(b"\0").decode(),
    f"ssh-ed25519 {encoded('ssh-ed25519')}{'A' * 9000}",
    f"ssh-\u00e9d25519 {BLOB}",
    f"ssh-ed25519 {BLOB}\u00b2",
    f'from="*" {KEY}',
]


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_a_key_without_its_comment(key: str) -> None:
    """The comment is the node's, and goes nowhere."""
    assert checked.public_key(f'{key} *",cert-authority \x1b[2J') == key


@pytest.mark.parametrize("key", BAD_KEYS)
def test_what_is_not_a_key(key: str) -> None:
    """Neither its type nor its body are what ssh reads."""
    with pytest.raises(Unreadable):
        checked.public_key(key)


def test_a_host_keeps_its_other_keys() -> None:
    """One of a type that no ssh takes any more is left out."""
    lines = [f"ssh-dss {encoded('ssh-dss')} root@old", "", f"{KEY} root@old", KEY]
    assert checked.public_keys(lines) == (KEY,)


def test_a_host_has_few_keys() -> None:
    """All others have each of them in known_hosts."""
    lines = [f"ssh-rsa {encoded('ssh-rsa')[:-4]}{each:04d}" for each in range(99)]
    assert checked.public_keys(lines[:16]) == tuple(lines[:16])
    with pytest.raises(Unreadable, match="99 public keys"):
        checked.public_keys(lines)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("192.0.2.7", "192.0.2.7"), ("FE80::1%eth0", "fe80::1"), ("2001:db8:0::1", "2001:db8::1")],
)
def test_an_address(text: str, shown: str) -> None:
    """In its usual form."""
    assert checked.address(text) == shown


BAD: dict[Any, list[str]] = {
    checked.address: [
        "",
        "*",
        "10.0.0.0/8",
        "192.0.2",
        "host",
        '1.2.3.4",command="id',
        "1.2.3.4\n",
    ],
    checked.interface: [
        "",
        "-x",
        "eth0 up",
        "eth0\n",
        "eth0;id",
        "a" * 16,
        "=eth0",
        "^eth0",
        "e,f",
    ],
    checked.path: ["", "home", "/a\nb", "/a\0", "/a\x1b", "/\udcff", "/" + "a" * 5000],
    checked.user: ["", "-i", "a b", "a:b", "a\n", "root;id", "$(id)", "a" * 300],
    checked.number: ["", "-1", "1.0", "1e3", "\u0661", "4294967296", "9" * 5000],
    checked.version: ["", "-1", "1 2", "1;id", "$(id)", "--index-url=x"],
    checked.package: ["", "-r", "--index-url", "a b", "a;id", "../x", "http://x"],
    checked.platform: ["", "x y", "X", "a-b", "../x"],
}


@pytest.mark.parametrize(("check", "text"), [(check, x) for check in BAD for x in BAD[check]])
def test_words_of_another_form(check: Any, text: str) -> None:
    """Each is refused."""
    with pytest.raises(Unreadable):
        check(text)


@given(st.text())
def test_no_text_ends_in_another_error(text: str) -> None:
    """Whatever a node says, it is a word of that form, or unreadable."""
    for each in (*BAD, checked.public_key):
        try:
            word = each(text)
        except Unreadable:
            continue
        assert "\n" not in str(word)


ACCOUNT = f"user root\nuid 0\nhome /root\npublic {KEY} c"
SECTIONS = {
    "ssh.host-keys": f"{KEY} root@v100-01",
    "ssh.account": ACCOUNT,
    "ssh.names": "name v100-01 192.0.2.11\naddress v100-01 192.0.2.11\nsource v100-01 192.0.2.11",
}
HOSTILE_SECTIONS = {
    "a key": {"ssh.account": ACCOUNT.replace(KEY, HOSTILE)},
    "a home": {"ssh.account": ACCOUNT.replace("/root", "/root\x1b")},
    "a user": {"ssh.account": ACCOUNT.replace("user root", "user root;id")},
    "a uid": {"ssh.account": ACCOUNT.replace("uid 0", "uid -1")},
    "a host key": {"ssh.host-keys": f"{KEY}\n*,!x {KEY}"},
    "a host key's type": {"ssh.host-keys": f"ssh-rsa {BLOB}"},
    "an address": {"ssh.names": 'address v100-01 *",cert-authority,command="id"'},
    "a source": {"ssh.names": 'source a100-01 10.0.0.1",restrict'},
    "addresses": {"ssh.names": "\n".join(f"source n{x} 10.0.0.{x}" for x in range(99))},
}


def state_with(change: dict[str, str]) -> NodeState:
    """Return the healthy node with what it says about SSH, as it is read."""
    other = {each.name: Reading(0, "", "not asked") for each in ssh.SshMesh.sections}
    answers = {name: Reading(0, text) for name, text in {**SECTIONS, **change}.items()}
    readings = Readings({**other, **answers})
    state = ssh.parse(readings)
    unread = [each for each in readings.unread if each.reason != "not asked"]
    plain = [{"area": "ssh", "section": each.section, "reason": each.reason} for each in unread]
    return states.state({"ssh": state.model_dump(mode="json"), "unreadable": plain})


@pytest.mark.parametrize("name", HOSTILE_SECTIONS)
def test_the_mesh_has_none_of_it(name: str) -> None:
    """The node that says it is unreadable; of the others each line is what it is without it."""
    found = state_with(HOSTILE_SECTIONS[name])
    findings = check(found, states.wanted(), states.nodes())
    assert any(each.rule == "ssh.unreadable" for each in findings)
    around = states.nodes()
    around = replace(around, states={**around.states, "v100-01": found})
    healthy = states.state(states.MESH)
    lines = mesh.known_wanted(healthy, around)
    assert lines["a100-01"] == mesh.known_wanted(healthy, states.nodes())["a100-01"]
    account = found.ssh.account
    public = account.public if account is not None else None
    written = [*lines.get("v100-01", ())]
    if public is not None:
        sources = mesh.comes_from(EVIL, found.ssh)
        written.append(mesh.authorized_line("v100-01", public, sources, itself=False))
    for line in written:
        assert "cert-authority" not in line and "command" not in line and "*" not in line
        assert line.count(" ") <= 4
    rules = {each.rule for each in check(healthy, states.wanted(), around)}
    assert "ssh.unreadable" not in rules


def test_the_healthy_answer_is_read() -> None:
    """The control."""
    found = state_with({})
    assert found.ssh.account is not None and found.ssh.account.public == KEY
    assert found.ssh.host_keys == (KEY,)
    assert mesh.comes_from(EVIL, found.ssh) == ("192.0.2.11",)


def test_a_link_local_address() -> None:
    """Its interface is a node's own: what is written is found again."""
    peer = Peer(name="n", address="fe80::1%eth0")
    state = state_with({}).ssh.model_copy(update={"names": None})
    (address,) = mesh.comes_from(peer, state)
    line = mesh.authorized_line("n", KEY, [address], itself=False)
    block = Block(lines=(Own(node="n", text=line),))
    assert mesh.lets_in(block, "n", KEY, mesh.comes_from(peer, state))


@pytest.mark.parametrize("public", [HOSTILE, f"{KEY}\nssh-rsa x", f"{KEY} comment"])
def test_a_line_is_never_written_with_more(public: str) -> None:
    """Also where a state came by another way than the parser."""
    with pytest.raises(ValueError, match="not a public key of n"):
        mesh.authorized_line("n", public, ["192.0.2.1"], itself=False)
    with pytest.raises(ValueError, match="not a host key of v100-01"):
        mesh.known_lines(EVIL, [public])
    with pytest.raises(ValueError, match="not an IP address"):
        mesh.authorized_line("n", KEY, ['*",cert-authority'], itself=False)


@pytest.mark.parametrize("itself", [True, False])
def test_no_key_is_let_in_without_an_address(itself: bool) -> None:
    """An empty from= lets none in, and one that is left out lets the key in from anywhere."""
    with pytest.raises(ValueError, match="no address of n"):
        mesh.authorized_line("n", KEY, [], itself=itself)
    block = Block(lines=(Own(node="n", text=f'from="" {KEY} gpu-node:n'),))
    assert not mesh.lets_in(block, "n", KEY, [])


@pytest.mark.parametrize(
    "text", ["eth0;id 0x1003 up 1500 - physical", "eth0\x1b 0x1003 up 1500 - physical"]
)
def test_interfaces(text: str) -> None:
    """They end in nccl.conf and in what a shell exports."""
    with pytest.raises(Unreadable):
        network.parse_links(text)


@pytest.mark.parametrize(
    "text", ["n 192.0.2.1;id dev eth0 src 192.0.2.1", "n 192.0.2.1 dev e,f src x", "n * dev a"]
)
def test_routes(text: str) -> None:
    """A device is an interface, and what it comes from is an address."""
    with pytest.raises(Unreadable):
        network.parse_routes(text)


@pytest.mark.parametrize(
    "text", ["root\n/root\x1b\n/bin/sh", "a;b\n/root\n/bin/sh", "a\n/b\nsh -c"]
)
def test_who_trains(text: str) -> None:
    """The home is where files are written."""
    with pytest.raises(Unreadable):
        env.parse_user(text)


ENVIRONMENT: dict[str, Any] = states.BASE["environment"]
WHEEL = {"name": "nvidia-nccl-cu12", "version": "2.18.1", "sha256": None, "size": None}


@pytest.mark.parametrize(
    "change",
    [
        {"python": "3.10 --index-url=x"},
        {"platform": "manylinux_2_17_x86_64 -d /"},
        {"wheels": [{**WHEEL, "name": "nvidia-nccl-cu12 -r /etc/shadow"}]},
        {"wheels": [{**WHEEL, "version": "2.18.1 --no-index"}]},
    ],
)
def test_words_for_pip(change: dict[str, Any]) -> None:
    """They end in pip's command line, on the controller as well."""
    nccl.parse_environment(json.dumps(ENVIRONMENT))
    with pytest.raises(Unreadable):
        nccl.parse_environment(json.dumps({**ENVIRONMENT, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["sm_%s"]},
        {"compilers": {"least": "none", "header": None, "cuda": {}}},
        {"compilers": {"least": "9", "header": None, "cuda": {"12.1": ["9", "9" * 5000]}}},
    ],
)
def test_what_rules_compare_as_numbers(change: dict[str, Any]) -> None:
    """No rule meets another form of it."""
    with pytest.raises(ValueError, match="should match pattern"):
        nccl.parse_environment(
            json.dumps({**ENVIRONMENT, "torch": {**ENVIRONMENT["torch"], **change}})
        )
