"""What a shell prints that sshd starts for a command, before the command itself says anything."""

from __future__ import annotations

from facts.area import State

# After the lines that find $user, $home and the $entry of passwd. The login shell is started as
# sshd would, and runs nothing. One that is no bash is left alone: what it reads is not known here.
PRINTS = r"""
shell=${entry##*:}
case $(readlink -f "$shell") in */bash) ;; *) exit 0 ;; esac
limited() {
  if timeout --version >/dev/null 2>&1; then timeout -s KILL 5 "$@"; else "$@"; fi
}
as_sshd() {
  cd / && limited env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 "$@" \
    </dev/null 2>/dev/null
}
told() {
  if [ "$user" = "$(id -un)" ]; then
    as_sshd HOME="$home" USER="$user" LOGNAME="$user" SHELL="$shell" "$shell" -c :
  else
    as_sshd su -s "$shell" "$user" -c :
  fi
}
# Who may not become another user is told so by the section of the launcher's variables.
[ "$user" = "$(id -un)" ] || [ "$(id -u)" = 0 ] || exit 0
told | head -c 65536 | od -An -v -tu1 | awk '
  { for (i = 1; i <= NF; i++) {
      count++
      if ($i == 10) ended = first != ""
      else if (!ended && length(first) < 80)
        first = first ($i < 32 || $i > 126 ? "?" : sprintf("%c", $i + 0)) } }
  END { print count + 0; print first }'
"""


class Prints(State):
    """How many bytes a shell prints of its own, 65536 standing for more; and the first line."""

    bytes: int
    first: str


def parse_prints(text: str) -> Prints | None:
    """Parse the count and the line; None where nothing is told of such a shell."""
    count, _, first = text.partition("\n")
    return Prints(bytes=int(count), first=first) if text else None
