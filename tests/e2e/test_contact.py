"""First contact with a bare server: from its password to a key; the password is shown nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.deploy.files import replace as replacement
from gpu_node.lab import nodes, roster
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust import password_logins as passwords
from gpu_node.onboarding.trust.host_keys import Server, choose, offered
from gpu_node.onboarding.trust.keys import install_key, public_key
from gpu_node.onboarding.trust.login import methods, open_session, prove_key
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.password_logins import refuse_passwords
from tests.e2e.on_lab import changed, manifest, on
from tests.node_scripts import until

pytestmark = pytest.mark.lab

NODE = "v100-02"
ADDRESS = roster.NODES[NODE].address
CONFIG = "/etc/ssh/sshd_config"
# All of a first contact as the command does it, with everything logged that can be.
CONTACT = """
from gevent import monkey
monkey.patch_all()
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.DEBUG, filename=sys.argv[4])
from gpu_node.onboarding.trust.keys import install_key
from gpu_node.onboarding.trust.host_keys import Server, choose, offered, pin
from gpu_node.onboarding.trust.keys import public_key
from gpu_node.onboarding.trust.login import open_session, prove_key
from gpu_node.onboarding.trust.password import asked, given
address, known_hosts, key, _, accept, stdin = sys.argv[1:]
server = Server("v100-02", address, 22, "root", Path(known_hosts), Path(key))
keys = offered(server)
chosen = choose(server, keys, accept, None)
pin(server, chosen, keys)
secret = given(stdin == "stdin") or asked("Password: ")
with open_session(server, chosen, secret) as session:
    print(session.by, install_key(session, public_key(server)), secret)
prove_key(server, chosen)
"""


def reload() -> None:
    """Have the node's sshd read its files anew, and wait until it answers again."""
    on(NODE, "kill -HUP 1")
    assert until(lambda: _answers())


def _answers() -> bool:
    try:
        return bool(offered(at(Path("/nowhere"))))
    except ContactError:
        return False


def at(known_hosts: Path, key: Path | None = None) -> Server:
    """The way to the node."""
    return Server(NODE, ADDRESS, 22, "root", known_hosts, key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A controller's home with a key in it; the node is as found."""
    nodes.reset([NODE])
    home = tmp_path_factory.mktemp("controller")
    key = str(home / "key")
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "zhang@home", "-f", key]
    subprocess.run(make, check=True)
    return home


@pytest.fixture(scope="module")
def server(folder: Path) -> Server:
    """The node, of which nothing is known yet."""
    return at(folder / "known_hosts", folder / "key")


@pytest.fixture(scope="module")
def password(folder: Path) -> str:
    """The node's own."""
    return roster.password_file(NODE).read_text().strip()


@pytest.fixture(scope="module")
def host_key(server: Server) -> str:
    """It is confirmed by its fingerprint, as printed by the node."""
    asked = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2"
    return choose(server, offered(server), on(NODE, asked).strip(), None)


@pytest.fixture
def configured() -> Iterator[Callable[[str], None]]:
    """Change the node's sshd_config by a sed script; it is put back afterwards."""
    before = on(NODE, f"cat {CONFIG}")

    def change(script: str) -> None:
        on(NODE, f"sed -i '{script}' {CONFIG} && sshd -t")
        reload()

    yield change
    on(NODE, f"cat >{CONFIG} <<'END'\n{before}END")
    reload()


def test_a_wrong_password(server: Server, host_key: str) -> None:
    """Nothing is changed on either side."""
    before = manifest(NODE)
    with pytest.raises(ContactError, match="the password is refused") as caught:
        open_session(server, host_key, Secret("not it"))
    assert "not it" not in str(caught.value)
    assert not changed(before, manifest(NODE))
    assert not server.known_hosts.exists()


def test_root_by_key_alone(
    server: Server, host_key: str, password: str, configured: Callable[[str], None]
) -> None:
    """sshd offers passwords and refuses root's: the setting is named."""
    configured("s/^PermitRootLogin .*/PermitRootLogin prohibit-password/")
    with pytest.raises(ContactError, match="PermitRootLogin prohibit-password"):
        open_session(server, host_key, Secret(password))


def test_no_password_is_taken(
    server: Server, host_key: str, password: str, configured: Callable[[str], None]
) -> None:
    """The message has the methods that sshd accepts."""
    configured("s/^PasswordAuthentication .*/PasswordAuthentication no/")
    with pytest.raises(
        ContactError, match=r"its sshd accepts publickey\); next: sshd accepts no password"
    ):
        open_session(server, host_key, Secret(password))


def test_pam_asks(
    server: Server, host_key: str, password: str, configured: Callable[[str], None]
) -> None:
    """A question of PAM's is answered like sshd's own."""
    configured(
        "s/^PasswordAuthentication .*/PasswordAuthentication no/; "
        "s/^KbdInteractiveAuthentication .*/KbdInteractiveAuthentication yes/"
    )
    with open_session(server, host_key, Secret(password)) as session:
        assert (session.by, session.run("id -un", 10).out) == ("password", ["root"])
        assert not session.sudo_refusal()


class Watch(threading.Thread):
    """Reads every process's arguments and environment, like `ps auxe`, until it is stopped."""

    def __init__(self, words: bytes) -> None:
        super().__init__()
        self.words = words
        self.found: set[str] = set()
        self.looked = 0
        self.over = threading.Event()

    @override
    def run(self) -> None:
        while not self.over.wait(0.02):
            self.looked += 1
            for path in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        if self.words in (path / name).read_bytes():
                            self.found.add(f"{path.name} {name}")
                    except OSError:  # it has ended
                        continue


@pytest.mark.parametrize("source", ["stdin", "environment"])
def test_from_a_password_to_a_key(
    server: Server, host_key: str, password: str, folder: Path, source: str
) -> None:
    """In a process as the command's: key let in, host key pinned, the password seen nowhere."""
    on(NODE, "rm -rf /root/.ssh")
    server.known_hosts.unlink(missing_ok=True)
    places = [str(server.known_hosts), str(server.key), str(folder / f"{source}.log")]
    digest = offered(server)[0].fingerprint
    env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    env.pop("SSH_AUTH_SOCK", None)
    # By its first process the variable is shown until it takes it: that one is not what we watch.
    watch = Watch(password.encode())
    if source == "stdin":
        watch.start()
    else:
        env[VARIABLE] = password
    done = subprocess.run(
        [sys.executable, "-c", CONTACT, ADDRESS, *places, digest, source],
        input=f"{password}\n" if source == "stdin" else "",
        cwd=roster.REPOSITORY,
        env={**env, "PYTHONPATH": str(roster.REPOSITORY / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    watch.over.set()
    if source == "stdin":
        watch.join()
        assert watch.looked > 5
    assert (done.returncode, done.stdout, done.stderr) == (0, "password True ***\n", "")
    assert watch.found == set()
    for path in folder.rglob("*"):
        assert not path.is_file() or password.encode() not in path.read_bytes()
    assert "userauth is OK" in (folder / f"{source}.log").read_text()
    assert password not in nodes.logs(NODE)
    assert server.known_hosts.read_text() == f"{ADDRESS} {host_key}\n"
    public = Path(f"{server.key}.pub").read_text()
    assert on(NODE, "cat /root/.ssh/authorized_keys") == public
    modes = on(NODE, "stat -c '%a %U' /root/.ssh /root/.ssh/authorized_keys").splitlines()
    assert modes == ["700 root", "600 root"]


def ssh(server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    """Log in by OpenSSH's own client, with that key and those pins alone."""
    always = ["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", server.key]
    pins = ["-o", f"UserKnownHostsFile={server.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    command = ["ssh", *always, *pins, *options, f"root@{ADDRESS}", "id -un"]
    return subprocess.run([str(each) for each in command], capture_output=True, text=True)


def test_the_key_alone_works(server: Server, host_key: str) -> None:
    """For ssh as for us; once more there is nothing to do, and nothing is touched."""
    assert ssh(server, "-o", "PreferredAuthentications=publickey").stdout == "root\n"
    prove_key(server, host_key)
    before = manifest(NODE)
    with open_session(server, host_key, Secret("not needed")) as session:
        assert session.by == "key"
        assert not install_key(session, public_key(server))
    assert not changed(before, manifest(NODE))


def test_another_host_key_meanwhile(server: Server, host_key: str, password: str) -> None:
    """No credentials are sent, both fingerprints are printed, and the pinned key stays."""
    pins = server.known_hosts.read_bytes()
    on(NODE, "cd /etc/ssh && mkdir /root/old && mv ssh_host_ed25519_key* /root/old/")
    on(NODE, "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
    reload()
    new = offered(server)[0].fingerprint
    assert on(NODE, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1] == new
    for tried in (
        lambda: open_session(server, host_key, Secret(password)),
        lambda: choose(server, offered(server), None, lambda text: True),
    ):
        with pytest.raises(ContactError, match="has changed") as caught:
            tried()
        assert new in str(caught.value)
    assert server.known_hosts.read_bytes() == pins
    on(NODE, "mv -f /root/old/* /etc/ssh/ && rmdir /root/old")
    reload()
    prove_key(server, host_key)


def test_passwords_that_cannot_be_refused(
    server: Server, host_key: str, configured: Callable[[str], None]
) -> None:
    """A Match block decides: everything is restored, and that is reported."""
    configured("$aMatch User root\\n  PasswordAuthentication yes")
    before = on(NODE, f"od -An -tx1 {CONFIG}")
    reason = r"\(a Match block\?\): the earlier file was restored"
    with open_session(server, host_key) as session, pytest.raises(ContactError, match=reason):
        refuse_passwords(session, host_key)
    assert on(NODE, f"od -An -tx1 {CONFIG}; ls /etc/ssh/sshd_config.d") == before
    assert until(lambda: "password" in taken(server, host_key))


def taken(server: Server, host_key: str) -> tuple[str, ...]:
    """What sshd takes; nothing in the moment in which it begins anew."""
    try:
        return methods(server, host_key)
    except ContactError:
        return ()


def test_a_controller_that_is_gone(
    server: Server, host_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without confirmation the node undoes the change, for its sshd as well."""

    def killed(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(passwords, "_not_kept", killed)
    monkeypatch.setattr(passwords, "CONFIRM_SECONDS", 10)
    # Another run's than that of the test before: a run puts back what it found first.
    gone = f"{replacement.backups()}-gone"
    monkeypatch.setattr(replacement, "backups", lambda: gone)
    before = on(NODE, f"od -An -tx1 {CONFIG}")
    with open_session(server, host_key) as session, pytest.raises(KeyboardInterrupt):
        refuse_passwords(session, host_key)
    assert until(lambda: taken(server, host_key) == ("publickey",))
    assert until(lambda: "password" in taken(server, host_key))
    assert on(NODE, f"od -An -tx1 {CONFIG}; ls -A /etc/ssh/sshd_config.d") == before


def test_passwords_are_refused(server: Server, host_key: str, password: str) -> None:
    """The key lets in, a password does not; the old session lives, and twice changes nothing."""
    with open_session(server, host_key) as session:
        assert refuse_passwords(session, host_key)
        assert session.run("echo here", 10).out == ["here"]
        before = manifest(NODE)
        assert not refuse_passwords(session, host_key)
        assert not changed(before, manifest(NODE))
    assert ssh(server).stdout == "root\n"
    refused = ssh(server, "-o", "PreferredAuthentications=password,keyboard-interactive")
    assert "Permission denied (publickey)" in refused.stderr
    without = Server(NODE, ADDRESS, 22, "root", server.known_hosts, server.known_hosts)
    with pytest.raises(ContactError, match="sshd accepts no password there"):
        open_session(without, host_key, Secret(password))
    effective = on(NODE, "sshd -T").splitlines()
    assert {"passwordauthentication no", "kbdinteractiveauthentication no"} <= {*effective}
    assert on(NODE, f"ls -A {CONFIG}.d; head -n 1 {CONFIG}").startswith("# gpu-node:")
