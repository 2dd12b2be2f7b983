"""What ssh and sshd of a node really go by: their own answers, with Host and Match blocks applied.

`ssh -G NAME` is what the launcher's ssh does for a node, `sshd -T -C ...` what sshd does for a user
who comes from one: without -C no Match block is applied.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from facts.area import State
from facts.cluster import SSH_PORT
from facts.kernels import SBIN
from facts.named import Named
from facts.probe import Unreadable

GLOBAL_KNOWN_HOSTS, PROXIES = "globalknownhostsfile", ("proxycommand", "proxyjump")
# What the settings of ssh's files may change about the way to a node.
# Those by which ssh offers other keys than the one in ~/.ssh, or none.
OFFERS = ("identityfile", "pubkeyauthentication", "preferredauthentications")
KEYWORDS = ("hostname", "port", "user", "hostkeyalias", *PROXIES, GLOBAL_KNOWN_HOSTS, *OFFERS)
# The folder for other packages' settings, which not every ssh_config includes.
SSH_CONFIG, DROP_IN_FOLDER = "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d"

# sh that defines `client NODE`, which prints what ssh does for a node, and in lines with `reads`
# the known_hosts files that it then reads; home is set.
CLIENT = rf"""
client() {{
  ssh -G "$1" 2>/dev/null </dev/null | awk -v node="$1" -v home="$home" '
    $1 ~ /^({"|".join(KEYWORDS)})$/ {{ print "client " node " " $0 }}
    $1 ~ /^(user|global)knownhostsfile$/ {{ for (i = 2; i <= NF; i++) {{
      file = $i; if (file ~ /^~\//) file = home substr(file, 2)
      print "reads " file }} }}'
}}
"""
# The lines of ssh's files that set one of the keywords, for whatever host.
SETTING_LINES = rf"""
set +f
for file in "$home/.ssh/config" {SSH_CONFIG} {DROP_IN_FOLDER}/*.conf; do
  [ ! -r "$file" ] || awk -v file="$file" '{{ line = $0; sub(/^[ \t]+/, "", line)
    word = tolower(line); sub(/[ \t=].*/, "", word) }}
    word ~ /^({"|".join((*KEYWORDS, "include"))})$/ {{
      print "setting " FNR " " word " " file "\t" line }}' "$file"
done
"""
_SSHD = (
    SBIN
    + r"""
# Asked with sudo, it finds the SSH user in gn_user.
me=${gn_user:-$(id -un)}
user=${user:-$me}
entry=$(getent passwd "$user" 2>/dev/null || awk -F: -v name="$user" '$1 == name' /etc/passwd)
home=$(printf '%s\n' "$entry" | awk -F: '{ print $6; exit }')
uid=$(printf '%s\n' "$entry" | awk -F: '{ print $3; exit }')
[ "$(id -u)" = 0 ] || exit 0
# Without a Match block one answer is that for all nodes; the default needs no question.
set=$(cat /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf 2>/dev/null |
  awk '$2 ~ /^\/etc\/ssh\/sshd_config\.d\// { next }
    tolower($1) ~ /^(match|authorizedkeysfile|include)/ { print tolower($1) }')
[ -n "$set" ] || exit 0
many=
case $set in *match* | *include*) many=yes ;; esac
ask() {
  address=$2
  case $address in
    *:* | *[!0-9.]*)
      told=$(getent ahosts "$address" 2>/dev/null | awk '{ print $1; exit }')
      address=${told:-$address} ;;
  esac
  sshd -T -C "user=$user,host=$1,addr=$address,laddr=127.0.0.1,lport=$own" 2>/dev/null |
    awk -v home="$home" -v user="$user" -v uid="$uid" '
      $1 == "authorizedkeysfile" {
        for (i = 2; i <= NF; i++) { file = $i
          gsub(/%h/, home, file); gsub(/%u/, user, file)
          gsub(/%U/, uid, file); gsub(/%%/, "%", file)
          if (file != "none") print "reads " (file ~ /^\// ? file : home "/" file) }
        if ($2 == "none") print "reads" }'
}
keys() {
  # A file server may keep root out of a home, and sshd reads it as the user.
  case $1 in "$home"/*) [ -r "$1" ] || return 0 ;; esac
  echo "looked $1"
  [ ! -r "$1" ] || awk -v file="$1" '/^[ \t]*#/ { next }
    { for (i = 1; i < NF; i++) if ($i ~ /^(ssh-|ecdsa-sha2-|sk-)/ && $(i + 1) ~ /^AAAA/) {
        print "key " file "\t" $i " " $(i + 1); next } }' <"$1"
}
each() {
  told=
  while read -r node address; do
    [ -n "$node" ] || continue
    [ -n "$told" ] && [ -z "$many" ] || told=$(ask "$node" "$address")
    [ -z "$told" ] || printf '%s\n' "$told" | sed "s/^/server $node /"
  done <<END
ASKED
END
}
each | awk -v ssh="$home/.ssh/" '{ print }
  NF > 3 { file = substr($0, index($0, " reads ") + 7) }
  NF > 3 && index(file, ssh) != 1 && !seen[file]++ { print "file " file }' |
while IFS= read -r line; do
  case $line in
    'file '*) keys "${line#file }" ;;
    *) printf '%s\n' "$line" ;;
  esac
done
"""
)


class Client(State):
    """What ssh does for `ssh NAME`; `proxy` is empty where it connects by itself.

    `identities` are the files of the keys that it offers, unless it `offers_keys` at all.
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
    """A line of one of ssh's files that sets one of the keywords for some hosts."""

    path: str
    line: int
    keyword: str
    text: str


class ClientSettings(State):
    """What ssh does for each node, and the lines of its files that may be why."""

    nodes: dict[str, Client]
    lines: tuple[SettingLine, ...]


class ServerSettings(State):
    """What sshd does when the training user comes from each node, as far as root could ask it.

    `reads` are the files of authorized keys, of no node where none are set; `keys` are those in
    files outside of ~/.ssh, as type and key: none of a file that is missing or empty.
    """

    reads: dict[str, tuple[str, ...]]
    keys: dict[str, tuple[str, ...]]


def sshd(named: Named) -> str:
    """Return sh that asks sshd about each node, which only root may do."""
    rows = "\n".join(f"{peer.name} {peer.address}" for peer in named.nodes)
    if not rows:
        return ":"
    own = next((peer.port for peer in named.nodes if peer.address == named.address), SSH_PORT)
    head = f"user={shlex.quote(named.user)}\nown={own}\n"
    return head + _SSHD.replace("ASKED", rows)


def parse_client(text: str) -> ClientSettings:
    """Parse `client NODE keyword value` and `setting LINE keyword FILE<tab>text`."""
    said: dict[str, dict[str, str]] = {}
    lines: list[SettingLine] = []
    for line in text.splitlines():
        if line.startswith("client "):
            _, node, keyword, value = [*line.split(" ", 3), ""][:4]
            before = said.setdefault(node, {}).get(keyword, "")
            said[node][keyword] = f"{before}\n{value}" if before else value
        elif line.startswith("setting "):
            _, number, keyword, rest = line.split(" ", 3)
            path, _, own = rest.partition("\t")
            lines.append(SettingLine(path=path, line=int(number), keyword=keyword, text=own))
    nodes = {node: _client(each) for node, each in said.items()}
    return ClientSettings(nodes=nodes, lines=tuple(lines))


def _client(said: dict[str, str]) -> Client:
    proxies = [said.get(each, "none") for each in PROXIES]
    return Client(
        hostname=said["hostname"],
        port=int(said["port"]),
        user=said["user"],
        proxy=next((each for each in proxies if each.lower() != "none"), ""),
        alias=said.get("hostkeyalias", ""),
        known_hosts=tuple(said.get(GLOBAL_KNOWN_HOSTS, "").split()),
        identities=tuple(said.get("identityfile", "").splitlines()),
        offers_keys=said.get("pubkeyauthentication", "yes") not in ("no", "false")
        and "publickey" in said.get("preferredauthentications", "publickey").split(","),
    )


def parse_sshd(text: str) -> ServerSettings:
    """Parse `server NODE reads FILE`, without FILE for none, and what is in these files.

    That is `looked FILE` for each that could be looked for, and `key FILE<tab>type key`.
    """
    reads: dict[str, list[str]] = {}
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("server "):
            _, node, _, file = [*line.split(" ", 3), ""][:4]
            reads.setdefault(node, []).extend([file] if file else [])
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
    )


def lines_about(settings: ClientSettings, keywords: Iterable[str]) -> tuple[SettingLine, ...]:
    """Return the lines that set one of some keywords."""
    wanted = set(keywords)
    return tuple(each for each in settings.lines if each.keyword in wanted)
