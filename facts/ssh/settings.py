"""The effective settings of a node's ssh and sshd, by their own output, with Host and Match blocks.

`ssh -G NAME` prints the settings of the launcher's ssh for a node, `sshd -T -C ...` those of sshd
for a user who logs in from a node: without -C no Match block is applied.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.peers import ALIKE, SSH_PORT
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.redaction import redacted
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

GLOBAL_KNOWN_HOSTS, PROXIES = "globalknownhostsfile", ("proxycommand", "proxyjump")
# Settings in ssh's files that may change the route to a node. Settings that make ssh offer other
# keys than the one in ~/.ssh, or none.
OFFERS = ("identityfile", "pubkeyauthentication", "preferredauthentications")
# What sshd prints of a setting by which it accepts no key, or none without a command in its line.
_REFUSING = {
    each.lower(): each
    for each in (
        "PermitRootLogin no",
        "PermitRootLogin forced-commands-only",
        "PubkeyAuthentication no",
    )
}
KEYWORDS = ("hostname", "port", "user", "hostkeyalias", *PROXIES, GLOBAL_KNOWN_HOSTS, *OFFERS)
# The folder for other packages' settings, which not every ssh_config includes.
SSH_CONFIG, DROP_IN_FOLDER = "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d"

# A name that no node has: what ssh does for it, it does for each node without settings of its own.
_NO_NODE = "gpu-node.invalid"
CLIENT = shell("ssh/client", keywords="|".join(KEYWORDS), no_node=_NO_NODE)
SETTING_LINES = shell(
    "ssh/setting_lines",
    ssh_config=SSH_CONFIG,
    drop_in_folder=DROP_IN_FOLDER,
    keywords="|".join((*KEYWORDS, "include")),
)


class Client(State):
    """What ssh does for `ssh NAME`; `proxy` is empty if it connects directly.

    `hostname` is empty where it is NAME, for nodes without settings of their own. `identities` are
    the files of the keys that it offers, if it `offers_keys` at all.
    """

    hostname: str
    port: int
    user: str
    proxy: str = ""
    alias: str = ""
    known_hosts: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    offers_keys: bool = True


class SettingLine(State):
    """A line in one of ssh's files that sets one of the keywords for some hosts."""

    path: str
    line: int
    keyword: str
    text: str


_SETTING = Columns(SettingLine, "line keyword path...", " ")


class ClientSettings(State):
    """What ssh does for each node, and the lines of its files that may cause it.

    `others` is for all that are not among the `nodes`, none where each was asked about. ssh did not
    tell what it does for the `unknown` nodes.
    """

    nodes: dict[str, Client]
    unknown: tuple[str, ...] = ()
    others: Client | None = None
    lines: tuple[SettingLine, ...]


class ServerSettings(State):
    """What sshd does when the training user logs in from each node, if root could ask it.

    `reads` are the files of authorized keys, without entries if none are set; `keys` are the keys
    in files outside of ~/.ssh, as type and key: none for a file that is missing or empty.
    `refuses` has the setting by which sshd accepts no key without a command of its own. `denies` is
    what to do about each reason by which PAM may refuse the account.
    """

    reads: dict[str, tuple[str, ...]]
    keys: dict[str, tuple[str, ...]]
    refuses: dict[str, str] = Field(default_factory=dict)
    denies: Annotated[tuple[str, ...], Field(max_length=20)] = ()


def sshd(request: ProbeRequest) -> str:
    """Return sh that asks sshd about each node; only root may do this."""
    rows = "\n".join(f"{peer.name} {peer.address}" for peer in request.nodes)
    if not rows:
        return ":"
    own = next((peer.port for peer in request.nodes if peer.address == request.address), SSH_PORT)
    return assigned(user=request.user, own=own, asked=rows) + shell("ssh/sshd")


@lru_cache(maxsize=ALIKE)
def parse_client(text: str) -> ClientSettings:
    """Parse `client NODE keyword value` and `setting LINE keyword FILE<tab>text`.

    NODE is * for all that have no settings of their own; `unknown NODE` got no answer. Nodes that
    are configured alike answer alike about all N nodes: this is then done once.
    """
    rows = by_word(text)
    nodes = {node: _client(node, each) for node, each in by_word(rows["client"]).items()}
    others = nodes.pop("*", None)
    lines = tuple(map(_setting_line, rows["setting"]))
    return ClientSettings(nodes=nodes, unknown=tuple(rows["unknown"]), others=others, lines=lines)


def _setting_line(row: str) -> SettingLine:
    place, _, text = row.partition("\t")
    return _SETTING.row(place, text=text)


def _client(node: str, lines: list[str]) -> Client:
    settings = {keyword: "\n".join(each) for keyword, each in by_word(lines).items()}
    if node == "*":
        settings.setdefault("hostname", "")
    proxies = [settings.get(proxy, "none") for proxy in PROXIES]
    return Client(
        hostname=settings["hostname"],
        port=int(settings["port"]),
        user=settings["user"],
        proxy=next((proxy for proxy in proxies if proxy.lower() != "none"), ""),
        alias=settings.get("hostkeyalias", ""),
        known_hosts=tuple(settings.get(GLOBAL_KNOWN_HOSTS, "").split()),
        identities=tuple(lines_of(settings.get("identityfile", ""))),
        offers_keys=settings.get("pubkeyauthentication", "yes") not in ("no", "false")
        and "publickey" in settings.get("preferredauthentications", "publickey").split(","),
    )


def parse_sshd(text: str) -> ServerSettings:
    """Parse `server NODE reads FILE`, without FILE for none, and the content of these files.

    `server NODE refuses KEYWORD VALUE` is a setting by which no key lets a node in.

    The content is `looked FILE` for each file that could be searched, and `key FILE<tab>type key`.
    """
    reads: dict[str, list[str]] = {}
    keys: dict[str, list[str]] = {}
    refuses: dict[str, str] = {}
    denies: list[str] = []
    for line in lines_of(text):
        if line.startswith("server "):
            _, node, verb, file = [*line.split(" ", 3), ""][:4]
            if verb == "refuses":
                refuses.setdefault(node, _setting(file))
                continue
            reads.setdefault(node, []).extend([file] if file else [])
        elif line.startswith("denies ") and not reads:  # behind them is what a user may have made
            denies.append(redacted(line.removeprefix("denies ")))
        elif line.startswith("looked "):
            keys.setdefault(line.removeprefix("looked "), [])
        elif line.startswith("key "):
            path, _, key = line.removeprefix("key ").partition("\t")
            keys.setdefault(path, []).append(key)
        else:
            raise Unreadable(line)
    return ServerSettings(
        reads={node: tuple(each) for node, each in reads.items()},
        keys={path: tuple(each) for path, each in keys.items()},
        refuses=refuses,
        denies=tuple(denies),
    )


def _setting(text: str) -> str:
    """Return a setting of sshd_config as it is written there."""
    if text not in _REFUSING:
        raise Unreadable(text)
    return _REFUSING[text]


def lines_about(settings: ClientSettings, keywords: Iterable[str]) -> tuple[SettingLine, ...]:
    """Return the lines that set one of the keywords."""
    wanted = set(keywords)
    return tuple(line for line in settings.lines if line.keyword in wanted)
