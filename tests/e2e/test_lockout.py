"""Changes of the way in that would lock the controller out: undone or refused; a login opens."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from gpu_node.facts.limits.confirmed import SSHD as MAIN
from gpu_node.facts.limits.confirmed import SSHD_FIRST as OWN
from gpu_node.lab import answering, keys, nodes, roster
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.host_keys import Server
from gpu_node.onboarding.trust.login import methods, open_session
from gpu_node.onboarding.trust.password_logins import refuse_passwords
from gpu_node.onboarding.trust.session import Session
from tests.e2e.conftest import APT_NODE, CONVERGED, let_in
from tests.e2e.on_lab import MANAGED, converge, on
from tests.node_scripts import until

pytestmark = [pytest.mark.lab, pytest.mark.lab_slow]

NODE = "v100-01"
KEYS = "/root/.ssh/authorized_keys"
RELOAD = "kill -HUP 1"
# A setting that no sshd knows, in a file of another program; sshd has not read it yet.
BROKEN = "/etc/ssh/sshd_config.d/50-site.conf"
WRONG = "NoSuchSetting yes"
BREAK = f"echo '{WRONG}' >{BROKEN}"
INCLUDE = f"sed -i '1i Include {BROKEN.rpartition('/')[0]}/*.conf' {MAIN}"


@pytest.fixture
def peer(converged_once: None) -> str:
    """A converged node whose file has lost the keys of the nodes."""
    nodes.put_back(MANAGED, CONVERGED)
    on(NODE, f"sed -i /gpu-node:/d {KEYS}")
    return NODE


def log_in(node: str) -> None:
    """A new session of the controller opens."""
    answering.log_in(roster.NODES[node])


def test_the_controllers_key_is_in_another_file(peer: str) -> None:
    """The file that is written has no key of the controller, which needs none there."""
    on(peer, f"mkdir -p /etc/ssh/keys; mv {KEYS} /etc/ssh/keys/root; echo '# site' >{KEYS}")
    on(peer, f"echo 'AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/keys/%u' >>{MAIN}; {RELOAD}")
    answering.wait(roster.NODES[peer])
    done = converge()
    assert done.code == 0, done.err
    log_in(peer)
    written = on(peer, f"cat {KEYS}")
    assert written.count(" gpu-node:") - 1 == len(MANAGED) and written.endswith("# site\n")
    assert keys.public(roster.CLIENT_KEY).split()[1] not in written


def test_no_login_opens_with_the_new_keys(peer: str) -> None:
    """The file is restored, byte for byte, and a login opens."""
    on(peer, f"printf '#!/bin/sh\\n! grep -q gpu-node: {KEYS}\\n' >/usr/local/sbin/refuse")
    on(peer, "chmod 755 /usr/local/sbin/refuse")
    on(
        peer,
        "sed -i '1i account required pam_exec.so quiet /usr/local/sbin/refuse' /etc/pam.d/sshd",
    )
    before = on(peer, f"cksum {KEYS}; stat -c '%a %U' {KEYS}")
    done = converge()
    assert done.code == 1
    assert f"no new session with {KEYS} in place" in done.err
    assert "the earlier file was restored" in done.err
    assert on(peer, f"cksum {KEYS}; stat -c '%a %U' {KEYS}") == before
    log_in(peer)


def test_a_drop_in_that_sshd_cannot_read(peer: str) -> None:
    """It is another program's, and sshd has not read it: a converge does not make it do so."""
    on(peer, f"{INCLUDE}; {BREAK}; ! sshd -t 2>/dev/null")
    on(peer, "rm /etc/security/limits.d/99-gpu-node.conf")
    done = converge()
    assert done.code == 0, done.err
    log_in(peer)
    assert on(peer, f"cat {BROKEN}") == f"{WRONG}\n"


@pytest.fixture
def server(the_lab: None) -> Server:
    """The server that takes passwords, and the controller's key."""
    nodes.reset([APT_NODE])
    let_in(APT_NODE)
    node = roster.NODES[APT_NODE]
    return Server(node.name, node.address, 22, "root", roster.KNOWN_HOSTS, roster.CLIENT_KEY)


@pytest.fixture
def session(server: Server) -> Iterator[Session]:
    """One that is held open all the while."""
    with open_session(server, keys.public(keys.host_key(APT_NODE))) as held:
        yield held


def refused(session: Session) -> str:
    """Return why passwords are not turned off: nothing has changed, and a login opens."""
    config = f"cat {MAIN} {OWN} 2>&1; ls -A {OWN.rpartition('/')[0]} | grep gpu-node"
    config = f"{config}; cat /run/sshd.pid"
    before = on(APT_NODE, config)
    host_key = keys.public(keys.host_key(APT_NODE))
    with pytest.raises(ContactError) as caught:
        refuse_passwords(session, host_key)
    assert on(APT_NODE, config) == before
    assert "password" in methods(session.server, host_key)
    log_in(APT_NODE)
    return str(caught.value)


def test_a_drop_in_beside_ours(session: Session) -> None:
    """Our file is checked with all that sshd would read: it never gets into place."""
    on(APT_NODE, f"{INCLUDE}; {BREAK}")
    why = refused(session)
    assert "the check refused it" in why and "NoSuchSetting" in why


def test_a_drop_in_that_appears_meanwhile(session: Session) -> None:
    """After the check, and before sshd would be made to read its files: it is asked once more."""
    on(APT_NODE, INCLUDE)
    # Our check names a file (-f).
    asked = f'#!/bin/sh\ncase "$*" in -t) {BREAK} ;; esac\nexec /usr/sbin/sshd "$@"\n'
    on(APT_NODE, f"printf %s {shlex.quote(asked)} >/usr/local/bin/sshd")
    on(APT_NODE, "chmod 755 /usr/local/bin/sshd")
    assert "the earlier file is in place, and its daemon did not read it" in refused(session)
    on(APT_NODE, f"rm {BROKEN} /usr/local/bin/sshd")
    assert until(lambda: on(APT_NODE, "ls /var/lib/gpu-node 2>/dev/null") == "")
