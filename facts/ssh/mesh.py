"""What a node is asked about the others: sh about their names, their keys, and logins to them.

Files in the training user's home are read as that user: root may have no access to a mounted home.
"""

import shlex

from gpu_node.facts.network.state import ROUTES_TO
from gpu_node.facts.probe.file_systems import SHARED
from gpu_node.facts.probe.managed_block import BEGIN, END, MANAGED_BLOCK
from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.redaction import SHARED as HIDE
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import LIMITED, USERS_FILE, assigned, shell
from gpu_node.facts.probe.training_user import HOME
from gpu_node.facts.probe.training_user import SHARED as AS_USER
from gpu_node.facts.probe.training_user import USE as USE_AS_USER
from gpu_node.facts.ssh import logins
from gpu_node.facts.ssh import settings as ssh_settings
from gpu_node.facts.ssh.settings import CLIENT, SETTING_LINES

USERS_KNOWN_HOSTS = ".ssh/known_hosts"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
HOSTS = "/etc/hosts"
NAME_SECONDS = 8

_AUTHORIZED = USERS_FILE + MANAGED_BLOCK + shell("ssh/authorized", begin=BEGIN, end=END)
_KNOWN = shell("ssh/known", users_known_hosts=USERS_KNOWN_HOSTS, known_hosts=KNOWN_HOSTS)
_KNOWN_BLOCK = (
    f"{MANAGED_BLOCK}[ ! -r {KNOWN_HOSTS} ] || managed_block <{KNOWN_HOSTS} | sed 's/^/block /'\n"
)
# All names are asked about at once first, within _SOON seconds.
_SOON = 2
_NAMES = LIMITED + ROUTES_TO + shell("ssh/names", seconds=NAME_SECONDS, soon=_SOON)
_HOSTS = MANAGED_BLOCK + shell("ssh/hosts", hosts=HOSTS)


# A shell of another user may not receive our variables; this one contains no quote.
_HANDED = """as_user "gn_hide='$gn_hide'
\""""


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the mesh of the `named` nodes."""
    asked = f"{_user(request)}{_HANDED}{shlex.quote(HOME + _known(request))}"
    known = f"{asked} || exit 1\n{_KNOWN_BLOCK}"
    login, apart = _as_user(request, logins.script(request)), request.trains_apart
    authorized = _as_user(request, _AUTHORIZED)
    return (
        Section("ssh.host-keys", shell("ssh/host_keys"), root=True, light=True),
        account(request),
        Section("ssh.authorized", authorized, shared=(AS_USER,), root=apart, light=True),
        Section(
            "ssh.sshd", ssh_settings.sshd(request), 20, shared=(AS_USER,), root=True, light=True
        ),
        Section("ssh.known", known, 20, shared=(HIDE, AS_USER), root=apart),
        names(request),
        # Only root can read user-data.
        Section("ssh.hosts", _hosts(request), root=True, light=True),
        Section(
            "ssh.logins",
            login,
            logins.seconds(request),
            shared=(AS_USER,),
            root=apart,
            about=logins.pairs(request),
        ),
    )


def names(request: ProbeRequest) -> Section:
    """Return the section about the addresses of the names of nodes."""
    return Section("ssh.names", _names(request), seconds=2 * NAME_SECONDS + 4, light=True)


def account(request: ProbeRequest) -> Section:
    """Return the section about the training user's home and key."""
    # A shell of another user may not receive our variables.
    body = f'"$gn_places"{shlex.quote(HOME + shell("ssh/account"))}'
    return Section(
        "ssh.account",
        f"{_user(request)}as_user {body}",
        shared=(SHARED, AS_USER),
        root=request.trains_apart,
        light=True,
    )


def _as_user(request: ProbeRequest, body: str) -> str:
    return f"{_user(request)}as_user {shlex.quote(HOME + body)}"


def _user(request: ProbeRequest) -> str:
    """Return sh that defines `as_user` for the training user."""
    return assigned(user=request.user) + USE_AS_USER


def lookups(peer: Peer) -> tuple[str, str]:
    """Return what ssh searches in known_hosts for a node's name and for its address."""
    if peer.port == SSH_PORT:
        return peer.name, peer.address
    return f"[{peer.name}]:{peer.port}", f"[{peer.address}]:{peer.port}"


def _known(request: ProbeRequest) -> str:
    rows = (f"{peer.name} {' '.join(dict.fromkeys(lookups(peer)))}" for peer in request.nodes)
    return CLIENT + assigned(asked="\n".join(rows)) + _KNOWN + SETTING_LINES


def _names(request: ProbeRequest) -> str:
    rows = "\n".join(f"{peer.name} {peer.address}" for peer in request.nodes)
    if not rows:
        return ":"
    return assigned(asked=rows) + _NAMES


def _hosts(request: ProbeRequest) -> str:
    names = " ".join(peer.name for peer in request.nodes)
    return assigned(begin=BEGIN, end=END, asked=names) + _HOSTS
