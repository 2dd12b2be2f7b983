# Lists the processes that have a GPU open; a user who is not root sees only their own processes. A
# process can choose its name and the names of its files, of any bytes: no line of the output is theirs.
plain() { printf '%s' "$1" | tr -c '\40-\176' '?'; }
if ls -q / >/dev/null 2>&1; then ls -lq /proc/[0-9]*/fd; else ls -l /proc/[0-9]*/fd; fi \
  2>/dev/null | awk '
  /^\/proc\// { split($1, part, "/"); pid = part[3] }
  / \/dev\/nvidia[0-9]+$/ { holds[pid] = 1 }
  END { for (pid in holds) print pid }' | while read -r pid; do
  user=$(ls -ld "/proc/$pid" 2>/dev/null | awk '{ print $3 }')
  path=$(readlink "/proc/$pid/exe" 2>/dev/null)
  printf '%s\t%s\t%s\t%s\n' "$pid" "${user:-?}" \
    "$(plain "$(cat "/proc/$pid/comm" 2>/dev/null)")" "$(plain "${path% (deleted)}")"
done
