# Lists the processes that have a GPU open; a user who is not root sees only their own processes. A
# process can choose its name and the names of its files, of any bytes: no line of the output is theirs.
# Needs $gn_process.
eval "$gn_process"
plain() { printf '%s' "$1" | tr -c '\40-\176' '?'; }
quoted=; ! ls -q / >/dev/null 2>&1 || quoted=q
pids=$({ of_processes fd ls "-l$quoted" /dev/null 2>/dev/null && echo whole; } | awk '
  /^\/proc\// { split($1, part, "/"); pid = part[3] }
  / \/dev\/nvidia[0-9]+$/ { holds[pid] = 1 }
  $0 == "whole" { whole = 1 }
  END { for (pid in holds) print pid; exit !whole }') || { echo 'the processes cannot be listed'; exit 1; }
for pid in $pids; do
  user=$(ls -ld "/proc/$pid" 2>/dev/null | awk '{ print $3 }')
  path=$(readlink "/proc/$pid/exe" 2>/dev/null)
  printf '%s\t%s\t%s\t%s\n' "$pid" "${user:-?}" \
    "$(plain "$(cat "/proc/$pid/comm" 2>/dev/null)")" "$(plain "${path% (deleted)}")"
done
