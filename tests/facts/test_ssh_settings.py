"""What ssh and sshd are asked about themselves, in real shells, with stand-ins for both."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.drift.ssh.settings import client, detour
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import mesh
from gpu_node.facts.ssh import state as ssh
from gpu_node.facts.ssh.settings import ClientSettings, parse_client, parse_sshd
from gpu_node.facts.ssh.state import SshState
from tests.shells import ask

NODES = (
    Peer(name="a", address="192.0.2.1", port=2222),
    Peer(name="b", address="192.0.2.2"),
    Peer(name="c", address="no-such-name.invalid"),
)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9xeKnotxRZzOU4fsjzFvm/yrds3AhyeW7KsSpUguHS"
# Stands for `sshd -T -C`: who comes from b finds another file.
SSHD = """#!/bin/sh
printf '%s\\n' "$*" >>FOLDER/asked
file='/keys/%u .ssh/authorized_keys2'
case $3 in *host=b,*) file=FOLDER/keys/%U-%%-%u ;; esac
printf 'port 22\\nauthorizedkeysfile %s\\npermitrootlogin yes\\n' "$file"
"""
# Stands for `ssh -G`.
SSH = """#!/bin/sh
printf 'user root\\nhostname %s\\nport 2222\\nciphers x\\n' "$2"
printf 'globalknownhostsfile FOLDER/global\\nuserknownhostsfile ~/.ssh/mine\\n'
[ "$2" != b ] || printf 'proxyjump jump\\n'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-ins, and a user whose home is in it."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    getent = f"#!/bin/sh\n[ \"$1\" = passwd ] || exit 2\necho 'root:x:0:0::{home}:/bin/sh'\n"
    for name, text in {"sshd": SSHD, "ssh": SSH, "getent": getent}.items():
        (tmp_path / name).write_text(text.replace("FOLDER", str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def answer(shell: str, name: str, folder: Path) -> str:
    """What a section prints whose /etc/ssh is in the folder."""
    named = ProbeRequest(nodes=NODES, user="root", address="192.0.2.1")
    (section,) = (each for each in mesh.sections(named) if each.name == name)
    command = section.command.replace("/etc/ssh/", f"{folder}/config/")
    return ask(shell, [replace(section, command=command)]).sections[name].require()


def test_sshd_is_asked_as_who_comes_from_each_node(shell: str, folder: Path) -> None:
    """Where there is a Match block; the tokens of a file's name stand for the user."""
    (folder / "config" / "sshd_config").write_text("UsePAM yes\n\tmatch Host b\n")
    (folder / "keys").mkdir()
    file = folder / "keys" / "0-%-root"
    file.write_text(f'# ssh-rsa AAAA\nfrom="192.0.2.1,::1" {KEY} zhang\n')
    found = parse_sshd(answer(shell, "ssh.sshd", folder))
    default = ("/keys/root", f"{folder}/home/.ssh/authorized_keys2")
    assert found.reads == {"a": default, "b": (str(file),), "c": default}
    assert found.keys == {"/keys/root": (), str(file): (KEY,)}  # looked for, and not there
    asked = (folder / "asked").read_text().splitlines()
    common = "laddr=127.0.0.1,lport=2222"
    assert asked[0] == f"-T -C user=root,host=a,addr=192.0.2.1,{common}"
    assert len(asked) == 3


def test_without_a_match_block_sshd_is_asked_once(shell: str, folder: Path) -> None:
    """One answer is that for every node."""
    (folder / "config" / "sshd_config").write_text("# Match nothing\nauthorizedKeysFile x\n")
    found = parse_sshd(answer(shell, "ssh.sshd", folder))
    assert list(found.reads) == ["a", "b", "c"]
    assert len((folder / "asked").read_text().splitlines()) == 1


REFUSING = {
    "PermitRootLogin=forced-commands-only": "PermitRootLogin forced-commands-only",
    "permitRootLogin no": "PermitRootLogin no",
    "PubkeyAuthentication no": "PubkeyAuthentication no",
    "PermitRootLogin prohibit-password": "",
}


@pytest.mark.parametrize(("line", "expected"), REFUSING.items(), ids=REFUSING)
def test_what_refuses_every_key(shell: str, folder: Path, line: str, expected: str) -> None:
    """It is named for each node; what lets keys in is not asked about."""
    (folder / "config" / "sshd_config").write_text(f"{line}\n")
    printed = line.replace("=", " ").lower()
    (folder / "sshd").write_text(f"#!/bin/sh\necho {printed}\necho >>{folder}/asked\n")
    found = parse_sshd(answer(shell, "ssh.sshd", folder))
    assert found.refuses == (dict.fromkeys("abc", expected) if expected else {})
    assert (folder / "asked").exists() == bool(expected)


def test_ssh_is_asked_about_nodes_with_settings_of_their_own(shell: str, folder: Path) -> None:
    """Keys are looked for in the files that it reads; lines that may decide are named."""
    (folder / "global").write_text(f"[a]:2222 {KEY}\n")
    (folder / "home" / ".ssh" / "mine").write_text(f"b {KEY}\n")
    (folder / "home" / ".ssh" / "known_hosts").write_text(f"c {KEY}\n")
    config = folder / "home" / ".ssh" / "config"
    config.write_text("Host *\n\tproxyJump=jump\n# Port 1\n  Port 2222\nPortals 1\nHost B\n")
    (folder / "config" / "ssh_config.d").mkdir()
    (folder / "config" / "ssh_config").write_text("Include x\nUser train")
    text = answer(shell, "ssh.known", folder)
    assert set(ssh.parse_known(text).keys) == {"[a]:2222", "b"}
    found = parse_client(text)
    assert {name: each.proxy for name, each in found.nodes.items()} == {"b": "jump"}
    assert found.others is not None
    assert (found.others.hostname, found.others.proxy) == ("", "")
    assert found.others.known_hosts == (f"{folder}/global",)
    assert [(each.path, each.line, each.text) for each in found.lines] == [
        (str(config), 2, "proxyJump=jump"),
        (str(config), 4, "Port 2222"),
        (f"{folder}/config/ssh_config", 1, "Include x"),
        (f"{folder}/config/ssh_config", 2, "User train"),
    ]


# A user's file, and for which nodes ssh is asked: those that it names, or all.
FILES = {
    "": "",
    "Host *\n  Port 2222\nMatch all\n": "",
    "Match final all\r\n": "",
    "CanonicalizeHostname=no\n": "",
    "host= A other 192.0.2.9\n": "a",
    "  Host *\n Host c b\n": "bc",
    "Host other\n": "",
    "Include more/*\n": "b",
    "Include ~/.ssh/more/one /nowhere/*\n": "b",
    "Include ~root/x\n": "abc",
    "Host a*\n": "abc",
    "Host !b *\n": "abc",
    'Host "a"\n': "abc",
    "Host a # the first\n": "abc",
    "Match host b\n": "abc",
    "Match exec true\n": "abc",
    "CanonicalizeHostname yes\n": "abc",
    "Include config\n": "abc",
    '"Host" b\n': "abc",
    "=Host b\n": "abc",
    "Host b\f\n": "abc",
}


def stand_in(folder: Path, own: str = "hostname $2", first: str = "") -> None:
    """Put another `ssh -G` in place: NAME is $2, `own` are lines of its, `first` runs before."""
    words = f'printf "user root\\nport 22\\n{own}\\n"'
    (folder / "ssh").write_text(f"#!/bin/sh\n{first}\n{words}\n")


@pytest.mark.parametrize("text", FILES)
def test_nodes_that_have_settings_of_their_own(shell: str, folder: Path, text: str) -> None:
    """What may be different is never taken for the same."""
    home = folder / "home" / ".ssh"
    stand_in(folder)
    (home / "config").write_text(text)
    (home / "more").mkdir()
    (home / "more" / "one").write_text("Host b\n")
    found = parse_client(answer(shell, "ssh.known", folder))
    assert "".join(found.nodes) == FILES[text]
    assert (found.others is None) is (FILES[text] == "abc")


def test_a_node_about_which_ssh_says_nothing(shell: str, folder: Path) -> None:
    """Its settings are unknown, and not the usual ones."""
    stand_in(folder, first="[ $2 != b ] || exit 255")
    (folder / "home" / ".ssh" / "config").write_text("Host b\n  HostName %n.c\n")
    found = parse_client(answer(shell, "ssh.known", folder))
    assert (found.nodes, found.unknown) == ({}, ("b",)) and found.others is not None
    state = SshState.model_construct(client=found)
    assert client(state, NODES[1]) is None and client(state, NODES[0]) == found.others


ODD = {
    "its settings depend on the name": "hostname $2.example.com",
    "a stand-in knows more": "hostname $([ $2 = a ] && echo x || echo $2)",
    "a command has the name": "hostname $2\nproxycommand nc $2",
}


@pytest.mark.parametrize("odd", ODD)
def test_settings_that_differ_by_name(shell: str, folder: Path, odd: str) -> None:
    """Each node is asked about, whatever the files say."""
    stand_in(folder, ODD[odd])
    found = parse_client(answer(shell, "ssh.known", folder))
    assert list(found.nodes) == ["a", "b", "c"] and found.others is None


PROXIES = {
    "sshpass -p hunter2 ssh -W %h:%p jump": "sshpass -p ...",
    "curl -u me:hunter2 x": "curl -u ...",
    "nc --proxy-auth u:hunter2 %h": "nc --proxy-auth ...",
}


def test_no_password_of_a_proxy_is_sent(shell: str, folder: Path) -> None:
    """Neither from ssh's own answer nor from a line of its files; and the report shows none."""
    config = folder / "home" / ".ssh" / "config"
    config.write_text("".join(f"ProxyCommand {each}\nproxycommand={each}\n" for each in PROXIES))
    (folder / "ssh").write_text(f"#!/bin/sh\ncat {folder}/answer\n")
    for proxy, wanted in PROXIES.items():
        (folder / "answer").write_text(f"user root\nhostname x\nport 22\nproxycommand {proxy}\n")
        text = answer(shell, "ssh.known", folder)
        found = parse_client(text)
        assert "hunter2" not in text
        assert found.others is not None and found.others.proxy == wanted
        assert len(found.lines) == 2 * len(PROXIES)
        # A node may send what it likes.
        sent = parse_client(text.replace(wanted, proxy))
        shown = detour(SshState.model_construct(client=without_lines(sent)), NODES[0])
        assert "a proxy, " in shown and "hunter2" not in shown


def without_lines(sent: ClientSettings) -> ClientSettings:
    """Return the settings without the lines of files that set them."""
    return sent.model_copy(update={"lines": ()})


PAM = """#%PAM-1.0
@include common-auth
# account  required     pam_access.so
account    required     pam_nologin.so
account sufficient pam_succeed_if.so uid < 500 quiet
account required pam_access.so accessfile=/etc/gpu.conf
auth required pam_exec.so /usr/local/bin/look
"""
TODAY = int(time.time() // 86400)
ACCESS = (
    "look at line 6 of FOLDER/pam.d/sshd: account required pam_access.so accessfile=/etc/gpu.conf"
)
EXPIRED = "extend the account, which has expired: chage -E -1 alice"
TO_CHANGE = "set the password, which has expired: passwd alice"
DENIES = {
    "a healthy account": ({"shadow": "alice:*:20000::::::"}, []),
    "another account": ({"shadow": "bob:*:0:::::1:\nalice::20000:0:99999:7:::"}, []),
    "nologin": (
        {"nologin": "until 6 pm\x07\n4711\n"},
        ["remove FOLDER/nologin, which has: until 6 pm?"],
    ),
    "an access module": ({"pam.d/sshd": PAM}, [ACCESS]),
    "an expired account": ({"shadow": "alice:*:20000:::::19700:"}, [EXPIRED]),
    "one that expires": ({"shadow": f"alice:*:20000:::::{TODAY + 2}:"}, []),
    "a password to change": ({"shadow": "alice:*:0::::::"}, [TO_CHANGE]),
    "an old password": ({"shadow": "alice:*:19000:0:30:7:::"}, [TO_CHANGE]),
}


@pytest.mark.parametrize("name", DENIES)
def test_what_pam_denies_an_account(shell: str, folder: Path, name: str) -> None:
    """Beside the files of sshd; each reason is what to do about it."""
    files, expected = DENIES[name]
    (folder / "pam.d").mkdir()
    for file, text in files.items():
        (folder / file).write_text(text)
    (folder / "getent").write_text("#!/bin/sh\necho 'alice:x:1000:1000::/home/alice:/bin/sh'\n")
    named = ProbeRequest(nodes=NODES, user="alice", address="192.0.2.1")
    (section,) = (each for each in mesh.sections(named) if each.name == "ssh.sshd")
    command = section.command
    for place in ("/etc/ssh/", "/etc/nologin", "/etc/pam.d/", "/etc/shadow"):
        command = command.replace(place, f"{folder}/{place.removeprefix('/etc/')}")
    command = command.replace("/run/nologin", f"{folder}/none")
    text = ask(shell, [replace(section, command=command)]).sections["ssh.sshd"].require()
    assert [each.replace(str(folder), "FOLDER") for each in parse_sshd(text).denies] == expected


def test_the_default_needs_no_question(shell: str, folder: Path) -> None:
    """A start of sshd costs more than a look into its file."""
    config = f"Include {folder}/config/sshd_config.d/*.conf\n#AuthorizedKeysFile x\n"
    (folder / "config" / "sshd_config").write_text(
        config.replace(str(folder / "config"), "/etc/ssh")
    )
    assert parse_sshd(answer(shell, "ssh.sshd", folder)).reads == {}
    assert not (folder / "asked").exists()
