"""The questions about the mesh, asked in real shells: bounded, and nothing is written by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.facts.probe.managed_block import BEGIN, END
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Reading, Readings, Section
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import logins, mesh
from gpu_node.facts.ssh import state as ssh
from tests.shells import ask

NODES = (
    Peer(name="a", address="192.0.2.1"),
    Peer(name="b", address="192.0.2.2", port=2222),
    Peer(name="c", address="192.0.2.3"),
)
# Stands for ssh: it says who was asked, and how; a greets in Latin-1, b is busy at first, c is not
# let in.
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>FOLDER/asked
case $* in
  *192.0.2.1*) printf 'Herzlich willk\\366mmen\\n' ;;
  *192.0.2.2*)
    [ ! -e FOLDER/busy ] || exit 0
    : >FOLDER/busy
    echo 'kex_exchange_identification: read: Connection reset by peer' >&2
    exit 255 ;;
  *192.0.2.3*)
    printf 'a banner\\r\\nroot@192.0.2.3: Permission denied (publickey).\\r\\n\\n' >&2
    exit 255 ;;
esac
"""


def _section(named: ProbeRequest, name: str) -> Section:
    (section,) = (each for each in mesh.sections(named) if each.name == name)
    return section


def _stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "ssh").write_text(SSH.replace("FOLDER", str(folder)))
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "asked"


def test_each_node_is_logged_in_to(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name and by address, with its port, and never so that a key would be taken on trust."""
    asked = _stand_in(tmp_path, monkeypatch)
    readings = ask(shell, [_section(ProbeRequest(nodes=NODES, address="192.0.2.2"), "ssh.logins")])
    found = logins.parse_logins(readings.sections["ssh.logins"].require())
    assert {(each.node, each.how): each.code for each in found} == {
        (peer.name, how): 255 if (peer.name, how) == ("c", "address") else 0
        for peer in NODES
        for how in ("name", "address")
    }
    (refused,) = (each.output for each in found if each.code)
    assert refused == "root@192.0.2.3: Permission denied (publickey)."
    calls = asked.read_text().splitlines()
    assert all("-o StrictHostKeyChecking=yes -o UpdateHostKeys=no" in call for call in calls)
    assert sum(call.endswith("=no b exit 0") for call in calls) == 1  # as launchers do
    assert sum("-p 2222 192.0.2.2 exit 0" in call for call in calls) == 2  # dropped, once more
    assert sum(" -p " in call for call in calls) == 2


# Stands for ssh -v to an sshd from OpenSSH 9.8: WORDS are what it shows on stderr before it fails.
VERBOSE_SSH = """#!/bin/sh
printf '%s\\n' "$*" >>FOLDER/asked
cat >&2 <<'END'
OpenSSH_9.2p1 Debian-2+deb12u6, OpenSSL 3.0.19 27 Jan 2026
debug1: Reading configuration data /etc/ssh/ssh_config
debug1: Connecting to 192.0.2.1 [192.0.2.1] port 22.
debug1: Connection established.
WORDS
END
exit 255
"""
PENALTY = """debug1: kex_exchange_identification: banner line 0: Not allowed at this time
kex_exchange_identification: Connection closed by remote host
Connection closed by 192.0.2.1 port 22"""
OLD_PENALTY = """debug1: ssh_exchange_identification: Not allowed at this time
ssh_exchange_identification: Connection closed by remote host"""
FULL = """debug1: kex_exchange_identification: banner line 0: Exceeded MaxStartups
kex_exchange_identification: Connection closed by remote host
Connection closed by 192.0.2.1 port 22"""
NO_KEY = """debug1: Remote protocol version 2.0, remote software version OpenSSH_9.9
debug1: Authentications that can continue: publickey
root@192.0.2.1: Permission denied (publickey)."""
# Recorded with OpenSSH 9.2 as server and client: /etc/nologin, chage -E, chage -d 0, pam_access.
_ACCEPTED = """debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2
debug1: Server accepts key: /root/.ssh/id_ed25519 ED25519 SHA256:ddsVerKAXrGWG7S/b4JfUuyZopC9of5Xq
"""
NOLOGIN = f"""{_ACCEPTED}maintenance until 18:00
call 4711

Connection closed by 192.0.2.1 port 22"""
EXPIRED = f"""{_ACCEPTED}Your account has expired; please contact your system administrator.
Connection closed by 192.0.2.1 port 22"""
TO_CHANGE = f"""{_ACCEPTED}You are required to change your password immediately (password expired).
Authenticated to 192.0.2.1 ([192.0.2.1]:22) using "publickey".
debug1: Sending command: exit 0
WARNING: Your password has expired.
Password change required but no TTY available.
debug1: Exit status 1"""
ACCESS = f"{_ACCEPTED}Connection closed by 192.0.2.1 port 22"
_CLOSED = "Connection closed by 192.0.2.1 port 22 after it accepted the key"
HUNG_UP = """debug1: Remote protocol version 2.0, remote software version OpenSSH_9.9
Connection closed by 192.0.2.1 port 22"""


@pytest.mark.parametrize(
    ("words", "calls", "outputs"),
    [
        (PENALTY, 1, ["Not allowed at this time"]),
        (OLD_PENALTY, 1, ["Not allowed at this time"]),
        (FULL, 6, ["Connection closed by 192.0.2.1 port 22"] * 2),
        (NO_KEY, 2, ["root@192.0.2.1: Permission denied (publickey)."] * 2),
        (HUNG_UP, 2, ["Connection closed by 192.0.2.1 port 22"] * 2),
        (NOLOGIN, 2, [f"{_CLOSED}: maintenance until 18:00 call 4711"] * 2),
        (
            EXPIRED,
            2,
            [f"{_CLOSED}: Your account has expired; please contact your system administrator."] * 2,
        ),
        (TO_CHANGE, 2, ["Password change required but no TTY available."] * 2),
        (ACCESS, 2, [_CLOSED] * 2),
    ],
    ids=[
        *("penalty", "penalty, old ssh", "MaxStartups", "no key", "hung up later"),
        *("nologin", "expired account", "expired password", "pam_access"),
    ],
)
def test_logins_that_fail_are_few(
    shell: str,
    words: str,
    calls: int,
    outputs: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One by name, one by address; none after a penalty; two more of one that was dropped."""
    (tmp_path / "ssh").write_text(
        VERBOSE_SSH.replace("FOLDER", str(tmp_path)).replace("WORDS", words)
    )
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "sleep").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    readings = ask(shell, [_section(ProbeRequest(nodes=NODES[:1]), "ssh.logins")])
    found = logins.parse_logins(readings.sections["ssh.logins"].require())
    assert [each.output for each in found] == outputs
    assert [each.is_punished for each in found] == [outputs[0].startswith("Not allowed")] * len(
        outputs
    )
    assert len((tmp_path / "asked").read_text().splitlines()) == calls


def many(count: int) -> tuple[Peer, ...]:
    return tuple(Peer(name=f"n{i:02}", address=f"198.51.100.{i}") for i in range(count))


@pytest.mark.parametrize(
    ("count", "pairs"), [(16, 16 * 16), (17, 17 + 16 * 5), (50, 50 + 49 * 6), (200, 200 + 199 * 8)]
)
def test_a_large_cluster_is_tried_in_part(count: int, pairs: int) -> None:
    """With 16 nodes every pair is tried, above by each node about log2 of their number."""
    nodes = many(count)
    for every_login, expected in ((False, pairs), (True, count * count)):
        tried = [
            (here.name, peer.name)
            for here in nodes
            for peer in logins.tried(
                ProbeRequest(nodes=nodes, address=here.address, every_login=every_login)
            )
        ]
        assert len(tried) == len({*tried}) == expected


def test_a_node_tries_those_at_distances_that_double() -> None:
    """Round: the node behind the last one is the first."""
    nodes = many(20)
    tried = logins.tried(ProbeRequest(nodes=nodes, address=nodes[17].address))
    assert [peer.name for peer in tried] == ["n18", "n19", "n01", "n05", "n13"]
    unnamed = logins.tried(ProbeRequest(nodes=nodes, address=""))
    assert [peer.name for peer in unnamed] == ["n00"]


def test_nodes_behind_one_address_have_their_own_places() -> None:
    """Each would else be the first one, and try all."""
    nodes = tuple(Peer(name=f"n{i:02}", address="198.51.100.1", port=2200 + i) for i in range(20))
    for here in nodes[1:]:
        asked = ProbeRequest(nodes=nodes, address=here.address, port=here.port)
        assert len(logins.tried(asked)) == 5


def test_in_a_large_cluster_a_node_logs_in_by_name(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reports how many nodes it did not try."""
    asked = _stand_in(tmp_path, monkeypatch)
    nodes = many(20)
    for every_login, calls, untried in ((False, 5, 15), (True, 40, 0)):
        asked.unlink(missing_ok=True)
        request = ProbeRequest(nodes=nodes, address=nodes[3].address, every_login=every_login)
        text = ask(shell, [_section(request, "ssh.logins")]).sections["ssh.logins"].require()
        assert len(logins.parse_logins(text)) == len(asked.read_text().splitlines()) == calls
        assert logins.parse_untried(text) == untried


def test_a_login_that_hangs_does_not_delay_the_others(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at its limit, and is no answer in time."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\necho >>{tmp_path}/asked\ncase $* in *" n04 "*) exec sleep 100 ;; esac\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    nodes = many(20)
    section = _section(ProbeRequest(nodes=nodes, address=nodes[3].address), "ssh.logins")
    limit = 'limited "$login_seconds" both'
    assert limit in section.command
    short = replace(section, command=section.command.replace(limit, "limited 1 both"), seconds=20)
    found = logins.parse_logins(ask(shell, [short]).sections["ssh.logins"].require())
    assert {each.node: each.code for each in found} == {
        **dict.fromkeys(("n05", "n07", "n11", "n19"), 0),
        "n04": 137,
    }
    assert len((tmp_path / "asked").read_text().splitlines()) == 5


def test_no_login_starts_after_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that there was no time for is unreadable: it is neither right nor wrong."""
    asked = _stand_in(tmp_path, monkeypatch)
    monkeypatch.setattr(logins, "LOGINS_SECONDS", 0)
    monkeypatch.setattr(logins, "SECONDS_EACH", 0)
    readings = ask("dash", [_section(ProbeRequest(nodes=NODES), "ssh.logins")])
    assert not asked.exists()
    text = readings.sections["ssh.logins"].text
    others = {each.name: Reading(0, "", "not asked") for each in ssh.SshMesh.sections}
    whole = Readings({**others, "ssh.logins": Reading(0, text)})
    assert ssh.parse(whole).logins == ()
    (reason,) = (
        each.reason
        for each in whole.unread
        if each.section == "ssh.logins" and "time" in each.reason
    )
    assert reason.startswith("no time left for ")
    assert "c by address" in reason


def test_what_there_was_no_time_for_is_listed_in_one_order() -> None:
    """By node and by name first, in whichever order the lanes came to it."""
    others = {each.name: Reading(0, "", "not asked") for each in ssh.SshMesh.sections}
    text = "pair c address -\npair a address -\npair c name -"
    readings = Readings({**others, "ssh.logins": Reading(0, text)})
    ssh.parse(readings)
    (reason,) = (each.reason for each in readings.unread if "time" in each.reason)
    assert reason.endswith(" for a by address, c by name, c by address")


def test_a_silent_resolver_is_reported() -> None:
    """A name means nothing then, and is not right; the other names are read all the same."""
    others = {each.name: Reading(0, "", "not asked") for each in ssh.SshMesh.sections}
    text = "address c ?\nname a ?\naddress a 192.0.2.1\nname b 192.0.2.2\naddress b 192.0.2.2"
    readings = Readings({**others, "ssh.names": Reading(0, text)})
    names = ssh.parse(readings).names
    assert names is not None and names.names == {"b": ("192.0.2.2",)} and names.silent == ("a",)
    reasons = [each.reason for each in readings.unread if each.section == "ssh.names"]
    assert reasons == ["the resolver gave no answer about the address of c"]


def test_many_silent_names_are_counted() -> None:
    """A large cluster's would fill the report: the first are named, and how many there are more."""
    others = {each.name: Reading(0, "", "not asked") for each in ssh.SshMesh.sections}
    text = "\n".join(f"address n{number:02} ?" for number in range(25))
    readings = Readings({**others, "ssh.names": Reading(0, text)})
    ssh.parse(readings)
    [reason] = [each.reason for each in readings.unread if each.section == "ssh.names"]
    assert reason.endswith("the address of n18, the address of n19, and 5 more")


def test_each_node_begins_with_itself() -> None:
    """All of them at once would else begin with the same sshd, which drops some."""
    first = logins.tried(ProbeRequest(nodes=NODES, address="192.0.2.3"))
    assert [peer.name for peer in first] == ["c", "a", "b"]


def test_nothing_is_asked_of_an_unwanted_mesh() -> None:
    """An inventory that does not name it costs no login; the host keys are public files."""
    assert [each.name for each in ssh.sections(ProbeRequest(nodes=NODES))] == ["ssh.host-keys"]
    state = ssh.parse(Readings({}))
    assert state.left_out is True
    assert [name for name, value in state if value is not None] == ["left_out"]
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIARmLr1ddHzaKTPq6utmFfI2IbnTs+x/MRBmhf4hpqgQ"
    state = ssh.parse(Readings({"ssh.host-keys": Reading(0, f"{key} root@a")}))
    assert (state.left_out, state.host_keys) == (True, (key,))


def test_lines_of_others_about_our_names(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our block is separate from a user's lines; comments are not names."""
    hosts = tmp_path / "hosts"
    hosts.write_text(
        f"127.0.1.1\ta.example a # zhang\n{BEGIN}\n192.0.2.1 a # gpu-node:a\n"
        f"192.0.2.9 a\n{END}\n# 192.0.2.2 b\n192.0.2.2 bb # b\n"
    )
    section = _section(ProbeRequest(nodes=NODES), "ssh.hosts")
    moved = Section(section.name, section.command.replace("/etc/hosts", str(hosts)))
    found = ssh.parse_hosts(ask(shell, [moved]).sections["ssh.hosts"].require())
    assert [(each.line, each.text) for each in found.lines] == [
        (1, "127.0.1.1\ta.example a # zhang")
    ]
    assert found.block.of("a") == ("192.0.2.1 a # gpu-node:a",)
    assert found.block.is_whole


def test_keys_of_others(shell: str, tmp_path: Path) -> None:
    """Of each line but ours and comments, whatever its options are."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_text(
        f"{BEGIN}\nssh-ed25519 AAAA1 gpu-node:a\n{END}\n# ssh-ed25519 AAAA2\nssh-rsa AAAA3 a\n"
        'from="192.0.2.1",command="echo a" ssh-ed25519 AAAA4 gpu-node:b\nssh-ed25519 AAAA5\n'
    )
    section = Section("x", f"home={tmp_path}\n{mesh._AUTHORIZED}")
    text = ask(shell, [section]).sections["x"].require()
    found = ssh.parse_authorized(text)
    assert found.of("a") == ("ssh-ed25519 AAAA1 gpu-node:a",) and not found.of("b")
    assert found.others == ("ssh-ed25519 AAAA4", "ssh-ed25519 AAAA5")


def test_cloud_inits_settings(shell: str, tmp_path: Path) -> None:
    """The file that is read last decides; comments and quotes are no part of a value."""
    (tmp_path / "cloud.cfg.d").mkdir()
    (tmp_path / "cloud.cfg").write_text("# manage_etc_hosts: a\nmanage_etc_hosts: localhost\n")
    (tmp_path / "cloud.cfg.d" / "9.cfg").write_text("x: 1\nmanage_etc_hosts : 'True'  # site\n")
    section = _section(ProbeRequest(nodes=NODES), "ssh.hosts")
    command = section.command.replace("/etc/cloud/", f"{tmp_path}/")
    text = ask(shell, [Section(section.name, command)]).sections["ssh.hosts"].require()
    managed = ssh.parse_hosts(text).managed
    assert managed is not None and managed.is_rewritten
    assert (managed.path, managed.line) == (f"{tmp_path}/cloud.cfg.d/9.cfg", 2)
