"""Logins from a node to the others: few of them, as sshd punishes the address of failing ones.

OpenSSH from 9.8 refuses an address for a while after logins from there have failed
(PerSourcePenalties: 5 s for each login, enforced from 15 s on).
"""

from __future__ import annotations

from typing import Literal

from facts.area import State
from facts.cluster import SSH_PORT, Peer
from facts.limited import LIMITED
from facts.named import Named
from facts.probe import Unreadable

# A login that hangs, and all of them together: what is not begun by then is not asked.
CONNECT_SECONDS, LOGIN_SECONDS, LOGINS_SECONDS = 5, 12, 60
# Of more nodes than these the logins from and to the first one alone are tried.
FULL_MESH = 16
# sshd drops some of more than ten logins at a time (MaxStartups 10:30:100).
LANES = 4
# What sshd sends to an address that it punishes, in the place of its version.
PUNISHED = "Not allowed at this time"

# It must neither add a key to known_hosts nor go over a connection that is open already. What sshd
# sends before its version is shown by -v alone.
_LOGINS = (
    LIMITED
    + r"""
unset SSH_AUTH_SOCK SSH_ASKPASS DISPLAY
end=$(($(date +%s) + SECONDS_IN_ALL))
try() {
  limited SECONDS_FOR_ONE both ssh -v -n -o BatchMode=yes -o StrictHostKeyChecking=yes \
    -o UpdateHostKeys=no -o CheckHostIP=no -o ConnectTimeout=SECONDS_TO_CONNECT \
    -o NumberOfPasswordPrompts=0 -o ControlMaster=no -o ControlPath=none \
    -o ClearAllForwardings=yes -o ForwardAgent=no -o ForwardX11=no -o PermitLocalCommand=no \
    $port "$1" 'exit 0'
  # The greeting of the other node's shell may be in any encoding.
  output=$(printf '%s\n' "$output" | tr -d '\r' | LC_ALL=C tr -c '\n -~' '?')
  last=$(printf '%s\n' "$output" | sed '/^debug[1-3]: /d; /^OpenSSH_/d; /^Authenticated to /d
    /^Transferred: sent /d; /^Bytes per second: /d; /^[[:space:]]*$/d' | tail -n 1)
}
# Whether sshd hung up before it showed its version, so that nobody has failed to log in.
is_dropped() {
  [ "$code" = 255 ] || return 1
  case $output in *'Remote protocol version '*) return 1 ;; esac
  case $last in
    *exchange_identification* | *'Connection reset by'* | *'Connection closed by'*) return 0 ;;
  esac
  return 1
}
is_punished() {
  [ "$code" = 255 ] && printf '%s\n' "$output" |
    grep '^debug1: .*exchange_identification: .*PUNISHED' >/dev/null
}
login() {
  [ "$(date +%s)" -lt "$end" ] || { printf 'pair %s %s -\n' "$1" "$2"; return; }
  try "$3"
  # Whom sshd has dropped for one login too many at a time (MaxStartups) asks again, and not all
  # nodes at the same moment.
  for pause in $((1 + OWN_PLACE % 4)) $((1 + (OWN_PLACE + 2) % 4)); do
    is_dropped && ! is_punished || break
    sleep "$pause"
    try "$3"
  done
  if is_punished; then
    printf 'pair %s %s 255 PUNISHED\n' "$1" "$2"
    return 1
  fi
  printf 'pair %s %s %s %s\n' "$1" "$2" "$code" "$last"
}
lane() {
  count=0
  while read -r node address number; do
    if [ -n "$node" ] && [ "$((count % LANES))" = "$1" ]; then
      # Launchers run `ssh NAME`: its port is that of ssh's own settings.
      port=
      login "$node" name "$node" || { count=$((count + 1)); continue; }
      [ "$number" = SSH_PORT ] || port="-p $number"
      login "$node" address "$address"
    fi
    count=$((count + 1))
  done <<END
ASKED
END
}
BEGIN_LANES
wait
"""
)


class Login(State):
    """How a login to a node ended, by its name or address: ssh's exit code and last words."""

    node: str
    how: Literal["name", "address"]
    code: int
    said: str

    @property
    def is_punished(self) -> bool:
        """Whether sshd refused it because of earlier ones; no further one was tried then."""
        return (self.code, self.said) == (255, PUNISHED)


def seconds() -> int:
    """Return the time limit of the logins of a node."""
    return LOGINS_SECONDS + 3 * LOGIN_SECONDS + 12


def script(named: Named) -> str:
    """Return sh that logs in to the nodes as the training user, and prints how that ended."""
    rows = [f"{peer.name} {peer.address} {peer.port}" for peer in tried(named)]
    if not rows:
        return ":"
    words = {
        "SECONDS_IN_ALL": str(LOGINS_SECONDS),
        "SECONDS_FOR_ONE": str(LOGIN_SECONDS),
        "SECONDS_TO_CONNECT": str(CONNECT_SECONDS),
        "LANES": str(LANES),
        "SSH_PORT": str(SSH_PORT),
        "PUNISHED": PUNISHED,
        "OWN_PLACE": str(own_place(named) or 0),
        "ASKED": "\n".join(rows),
    }
    text = _LOGINS.replace("BEGIN_LANES", "\n".join(f"lane {n} &" for n in range(LANES)))
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def tried(named: Named) -> list[Peer]:
    """Return the nodes that this one logs in to, of a large cluster the first one alone.

    This one is at the head: all of them at once would else begin with one sshd.
    """
    nodes = list(named.nodes)
    here = own_place(named)
    if len(nodes) > FULL_MESH and here != 0:
        return nodes[:1]
    return nodes[here or 0 :] + nodes[: here or 0]


def own_place(named: Named) -> int | None:
    """Return where this node stands in the list of all; None where it is not in it."""
    found = (i for i, peer in enumerate(named.nodes) if peer.address == named.address)
    return next(found, None)


def parse_logins(text: str) -> tuple[Login, ...]:
    """Parse `pair NODE how CODE last words`; a pair that there was no time for is left out.

    They end in any order, and are sorted by node, by name first: two nodes send the same in one
    text.
    """
    found = [_login(line) for line in text.splitlines() if not is_left(line)]
    return tuple(sorted(found, key=lambda each: place(each.node, each.how)))


def place(node: str, how: str) -> tuple[str, bool]:
    """Return what pairs, and what is asked about names, are sorted by."""
    return node, how != "name"


def is_left(line: str) -> bool:
    """Whether a line stands for a login that there was no time for."""
    return line.split(" ")[3:] == ["-"]


def _login(line: str) -> Login:
    if not line.startswith("pair "):
        raise Unreadable(line)
    _, node, how, code, said = [*line.split(" ", 4), ""][:5]
    return Login.model_validate({"node": node, "how": how, "code": int(code), "said": said})
