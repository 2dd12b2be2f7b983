"""What a node is asked about the others: sh about their names, their keys, and logging in to them.

Whatever lies in the home of the training user is read as that user: root may not see into a home
that is mounted from elsewhere.
"""

from __future__ import annotations

import shlex

from facts import logins, ssh_settings
from facts.block import BEGIN, END, PRINT
from facts.cluster import SSH_PORT, Peer
from facts.file_systems import SHARED
from facts.kernels import SBIN
from facts.limited import LIMITED
from facts.named import Named
from facts.probe import Section
from facts.ssh_settings import CLIENT, SETTING_LINES

USERS_KNOWN_HOSTS = ".ssh/known_hosts"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
HOSTS = "/etc/hosts"
NAME_SECONDS = 8

# Runs $1 as sh of the training user, $user, who may be another than the one that logs in.
AS_USER = """
me=$(id -un) || exit 1
user=${user:-$me}
as_user() {
  if [ "$user" = "$me" ]; then
    sh -c "$1"
  elif [ "$(id -u)" = 0 ]; then
    su -s /bin/sh "$user" -c "$1"
  else
    sudo -n -u "$user" /bin/sh -c "$1"
  fi
}
"""
# As sshd and ssh find it: $HOME may say anything.
HOME = """
name=$(id -un) || exit 1
entry=$(getent passwd "$name" 2>/dev/null || awk -F: -v name="$name" '$1 == name' /etc/passwd)
home=$(printf '%s\\n' "$entry" | awk -F: '{ print $6; exit }')
[ -n "$home" ] || { echo "$name has no home"; exit 1; }
"""

_ACCOUNT = r"""
printf 'user %s\nuid %s\nhome %s\n' "$name" "$(id -u)" "$home"
for each in "home $home" "folder $home/.ssh" "authorized $home/.ssh/authorized_keys" \
  "key $home/.ssh/id_ed25519"; do
  [ ! -e "${each#* }" ] || printf 'mode %s %s\n' "${each%% *}" "$(ls -ldnL "${each#* }")"
done
key=$home/.ssh/id_ed25519
places "$home" "$home/.ssh" "$home/.ssh/authorized_keys" "$key" | sed 's/^/place /'
[ -e "$key" ] || [ ! -e "$key.pub" ] || echo "stray $key.pub"
[ -e "$key" ] || exit 0
if said=$(ssh-keygen -y -P '' -f "$key" 2>&1 </dev/null); then
  printf 'public %s\n' "$said"
else
  printf 'unusable %s\n' "$(printf '%s\n' "$said" | tail -n 1)"
  [ ! -r "$key.pub" ] || printf 'public %s\n' "$(head -n 1 "$key.pub")"
fi
"""
_AUTHORIZED = f"""
file=$home/.ssh/authorized_keys
[ ! -e "$file" ] || {PRINT} <"$file"
"""
# Marks of changes that the node will undo by itself: no new session has confirmed them yet.
_PENDING = r"""
file=$(readlink -f "$home/.ssh/authorized_keys" || echo "$home/.ssh/authorized_keys")
for mark in "${file%/*}/.${file##*/}.gpu-node-"*; do
  [ ! -e "$mark" ] || printf '%s\n' "$mark"
done
"""
# Without root only the files tell: those that sshd offers are then taken to be all of them.
_HOST_KEYS = (
    SBIN
    + r"""
files=$(sshd -T 2>/dev/null | sed -n 's/^hostkey //p')
[ -n "$files" ] || files=$(ls /etc/ssh/ssh_host_*_key.pub 2>/dev/null | sed 's/\.pub$//')
[ -n "$files" ] || ! ls /etc/ssh/ssh_host_*_key >/dev/null 2>&1 ||
  { echo "its host keys can be read by root alone"; exit 1; }
for file in $files; do
  if said=$(ssh-keygen -y -P '' -f "$file" 2>/dev/null </dev/null) && [ -n "$said" ]; then
    printf '%s\n' "$said"
  else
    [ ! -r "$file.pub" ] || head -n 1 "$file.pub"
  fi
done
"""
)
_KNOWN = f"""{CLIENT}
set -f
newline='
'
while read -r node names; do
  [ -n "$node" ] || continue
  told=$(client "$node")
  IFS=$newline
  for line in ${{told:-reads $home/{USERS_KNOWN_HOSTS}$newline"reads {KNOWN_HOSTS}"}}; do
    IFS=' '
    case $line in
      'reads '*) file=${{line#reads }} ;;
      *) printf '%s\\n' "$line"; continue ;;
    esac
    [ -r "$file" ] || continue
    for each in $names; do
      ssh-keygen -F "$each" -f "$file" 2>/dev/null | awk -v each="$each" '!/^[#@]/ && NF > 2 {{
        print "known " each " " $2 " " $3 }}'
    done
  done
  IFS=' '
done <<END
ASKED
END
unset IFS
{SETTING_LINES}"""
_KNOWN_BLOCK = f"[ ! -r {KNOWN_HOSTS} ] || {PRINT} <{KNOWN_HOSTS} | sed 's/^/block /'"
# getent says 2 for a name that nobody knows; any other failure leaves it untold.
_NAMES = (
    SBIN
    + LIMITED
    + r"""
command -v getent >/dev/null 2>&1 || { echo "there is no getent here"; exit 1; }
resolve() {
  limited SECONDS getent ahosts "$3"
  case $code in
    0) output=$(printf '%s\n' "$output" | awk '!seen[$1]++ { printf " %s", $1 }') ;;
    2) output= ;;
    *) output=" ?" ;;
  esac
  printf '%s %s%s\n' "$1" "$2" "$output"
}
ask() {
  resolve name "$1" "$1"
  resolve address "$1" "$2"
  source=$(ip -o route get "$2" 2>/dev/null | sed -n 's/.* src \([0-9A-Fa-f.:]*\).*/\1/p')
  [ -z "$source" ] || printf 'source %s %s\n' "$1" "$source"
}
while read -r node address; do
  [ -z "$node" ] || ask "$node" "$address" &
done <<END
ASKED
END
wait
"""
)
_HOSTS_BLOCK = f"[ ! -r {HOSTS} ] || {PRINT} <{HOSTS} | sed 's/^/block /'"
# Lines of others that name one of the nodes, with their numbers.
_HOSTS_LINES = f"""
awk -v begin="$begin" -v end="$end" -v asked="$asked" '
BEGIN {{ count = split(asked, names, " "); for (i = 1; i <= count; i++) wanted[names[i]] = 1 }}
$0 == begin {{ inside = 1 }}
$0 == end {{ inside = 0 }}
!inside {{ line = $0; sub(/#.*/, "", line); parts = split(line, words, " ")
  for (i = 2; i <= parts; i++) if (words[i] in wanted) {{ print "line " NR " " $0; next }} }}
' {HOSTS}
"""
# cloud-init's settings, in the order in which it reads them: the last one decides.
_HOSTS_MANAGED = r"""
for file in /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg \
  /var/lib/cloud/instance/cloud-config.txt; do
  [ ! -r "$file" ] || awk -v file="$file" '/^manage_etc_hosts[ \t]*:/ { value = $0
    sub(/^[^:]*:[ \t]*/, "", value); sub(/[ \t]*(#.*)?$/, "", value)
    print "managed " NR " " file "\t" value }' "$file"
done
"""


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the mesh of the nodes that are `named`."""
    known = f"{_as_user(named, _known(named))} || exit 1\n{_KNOWN_BLOCK}"
    login, apart = _as_user(named, logins.script(named)), named.trains_apart
    return (
        Section("ssh.host-keys", _HOST_KEYS, root=True),
        account(named),
        Section("ssh.authorized", _as_user(named, _AUTHORIZED), root=apart),
        Section("ssh.sshd", ssh_settings.sshd(named), seconds=20, root=True),
        Section("ssh.pending", _as_user(named, _PENDING), root=apart),
        Section("ssh.known", known, seconds=20, root=apart),
        Section("ssh.names", _names(named), seconds=2 * NAME_SECONDS + 4),
        Section("ssh.hosts", _hosts(named), root=True),  # user-data is root's to read
        Section("ssh.logins", login, seconds=logins.seconds(), root=apart),
    )


def account(named: Named) -> Section:
    """Return the section about the training user's home and key."""
    # A shell of another user may not get our variables.
    body = f'"$gn_places"{shlex.quote(HOME + _ACCOUNT)}'
    script = f"user={shlex.quote(named.user)}\n{AS_USER}as_user {body}"
    return Section("ssh.account", script, shared=SHARED, root=named.trains_apart)


def _as_user(named: Named, body: str) -> str:
    return f"user={shlex.quote(named.user)}\n{AS_USER}as_user {shlex.quote(f'{HOME}{body}')}"


def lookups(peer: Peer) -> tuple[str, str]:
    """Return what ssh looks up in known_hosts for a node's name and for its address."""
    if peer.port == SSH_PORT:
        return peer.name, peer.address
    return f"[{peer.name}]:{peer.port}", f"[{peer.address}]:{peer.port}"


def _known(named: Named) -> str:
    rows = (f"{peer.name} {' '.join(dict.fromkeys(lookups(peer)))}" for peer in named.nodes)
    return _KNOWN.replace("ASKED", "\n".join(rows))


def _names(named: Named) -> str:
    rows = "\n".join(f"{peer.name} {peer.address}" for peer in named.nodes)
    if not rows:
        return ":"
    return _NAMES.replace("SECONDS", str(NAME_SECONDS)).replace("ASKED", rows)


def _hosts(named: Named) -> str:
    names = " ".join(peer.name for peer in named.nodes)
    given = {"begin": BEGIN, "end": END, "asked": names}
    head = "\n".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
    return f"{head}\n{_HOSTS_BLOCK}\n{_HOSTS_LINES}\n{_HOSTS_MANAGED}"
