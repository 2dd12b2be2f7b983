"""Files beside /etc/fstab that give /dev/shm a size at boot: systemd units, drop-ins, rc.local."""

from __future__ import annotations

import re
from typing import Literal, cast

from facts.area import State

# Prints a line each: what becomes of it (runs, waits, ignored), PATH, line number, and the line.
# A unit runs at boot where a target wants it. Of files with one name the first folder's counts.
ASK = r"""
set --
for top in /etc /run /usr/local/lib /usr/lib; do
  [ ! -d "$top/systemd/system" ] || set -- "$@" "$top/systemd/system"
done
[ -L /lib ] || [ ! -d /lib/systemd/system ] || set -- "$@" /lib/systemd/system
is_hidden() {
  for folder; do
    case $file in "$folder"/*) return 1 ;; esac
    [ ! -e "$folder/$below" ] && [ ! -L "$folder/$below" ] || return 0
  done
}
fate() {
  name=${below%%/*}
  name=${name%.d}
  state=waits
  for folder; do
    [ "$(readlink "$folder/$name")" != /dev/null ] || { echo waits; return; }
    for link in "$folder"/*.wants/"$name" "$folder"/*.requires/"$name"; do
      [ ! -L "$link" ] || state=runs
    done
  done
  echo "$state"
}
# lines STATE KEY: a line that ends with a backslash continues on the next.
lines() {
  awk -v state="$1" -v key="$2" -v f="$file" '
    text == "" && /^[ \t]*([#;]|$)/ { next }
    { if (text == "") first = NR; text = text $0; sub(/\r$/, "", text) }
    sub(/\\$/, " ", text) { next }
    { line = text; text = "" }
    line !~ key || line !~ /(^|[^A-Za-z_-])size=/ { next }
    state != "ignored" && (line !~ /\/dev\/shm\/?([^A-Za-z0-9._\/-]|$)/ || line !~ /mount/) { next }
    { gsub(/[^ -~]+/, " ", line); print state "\t" f "\t" first "\t" substr(line, 1, 300) }
  ' "$file"
}
# busybox runs `-exec ... +` outside of brackets only.
[ $# = 0 ] || find -L "$@" -maxdepth 2 -type f ! -path '*.wants/*' ! -path '*.requires/*' \
  \( -name '*.service' -o -path '*.service.d/*.conf' \
  -o -name dev-shm.mount -o -path '*/dev-shm.mount.d/*.conf' \) \
  -exec grep -ls -e /dev/shm -e '^[[:blank:]]*Options[[:blank:]]*=' {} + 2>/dev/null |
while IFS= read -r file; do
  below=${file#*/systemd/system/}
  is_hidden "$@" && continue
  case $below in
    (dev-shm.mount*) lines ignored '^[ \t]*Options[ \t]*=' ;;
    (*) lines "$(fate "$@")" '^[ \t]*Exec[A-Za-z]*[ \t]*=' ;;
  esac
done
for file in /etc/rc.local /etc/rc.d/rc.local; do
  [ ! -f "$file" ] || [ -L "$file" ] || [ ! -x "$file" ] || lines runs .
done
"""


class BootLine(State):
    """A line that gives /dev/shm a size: `size` as written there, `state` what a boot does with it.

    `runs`: a target wants its unit. `waits`: nothing found starts it at boot. `ignored`: systemd
    refuses mount units for /dev/shm ("Cannot create mount unit for API file system").
    """

    path: str
    line: int
    text: str
    size: str
    state: Literal["runs", "waits", "ignored"]


def parse(lines: list[str]) -> tuple[BootLine, ...]:
    """Parse lines of `STATE PATH NUMBER TEXT`, separated by tabs; ValueError for another one."""
    return tuple(map(_line, lines))


def _line(line: str) -> BootLine:
    state, path, number, text = line.split("\t", 3)
    # The last one counts, as for mount(8).
    size = re.findall(r"(?<![A-Za-z_-])size=([^\s,'\"]*)", text)[-1]
    return BootLine(
        path=path,
        line=int(number),
        text=text.strip(),
        size=size,
        state=cast(Literal["runs", "waits", "ignored"], state),
    )
