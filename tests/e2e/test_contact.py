"""First contact with a bare server: from its password to a key; the password is shown nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.lab import nodes, roster
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.host_keys import Server, choose, offered
from gpu_node.onboarding.trust.keys import install_key, public_key
from gpu_node.onboarding.trust.login import open_session, prove_key
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


def test_pam_asks(server: Server, host_key: str, password: str) -> None:
    """A question of PAM's is answered like sshd's own."""
    before = on(NODE, f"cat {CONFIG}")
    for name, value in (("PasswordAuthentication", "no"), ("KbdInteractiveAuthentication", "yes")):
        on(NODE, f"sed -i 's/^{name} .*/{name} {value}/' {CONFIG}")
    reload()
    try:
        with open_session(server, host_key, Secret(password)) as session:
            assert (session.by, session.run("id -un", 10).out) == ("password", ["root"])
            assert not session.sudo_refusal()
    finally:
        on(NODE, f"cat >{CONFIG} <<'END'\n{before}END")
        reload()


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
