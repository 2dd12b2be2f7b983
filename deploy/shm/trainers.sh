# End processes and those that they started: TERM, then KILL for those that remain after ten
# seconds.
# stdin has "PID START PARENT" lines; a pid with another start, or parent, is another process.
# Variables: gn_process (facts/probe/process.py).
# shellcheck shell=sh disable=SC2154
eval "$gn_process"
# That a process is not in a list that is not whole does not show that it has ended.
unknown() { echo "gpu-node: the processes cannot be listed; $1" >&2; exit 1; }
table() {
  stats=$(process_stat) || return
  printf '%s\n' "$stats" | awk '$2 !~ /^[ZX]/ { print $1, $21, $3 }'
}
# The listed processes that exist, and below them those that they started, as "PID START".
wanted=$(sed 's/^/wanted /')
now=$(table) || unknown 'no process was ended'
all=$(printf '%s\n' "$wanted" "$now" | awk '
  $1 == "wanted" { wanted[$2] = $3 " " $4; next }
  { start[$1] = $2; below[$3] = below[$3] " " $1; if (wanted[$1] == $2 " " $3) queue[++last] = $1 }
  END {
    for (next_one = 1; next_one <= last; next_one++) {
      print queue[next_one], start[queue[next_one]]
      count = split(below[queue[next_one]], child, " ")
      for (i = 1; i <= count; i++) queue[++last] = child[i]
    }
  }') || unknown 'no process was ended'
# Those that are still the same processes.
left() {
  now=$(table) || return
  { printf '%s\n' "$all" | sed 's/^/wanted /'; printf '%s\n' "$now"; } | awk '
    $1 == "wanted" { wanted[$2] = $3; next }
    ($1 in wanted) && wanted[$1] == $2 { print $1 }'
}
look() {
  pids=$(left) ||
    unknown "look yourself which of these are left: $(printf '%s' "$all" | sed 's/ .*//' | tr '\n' ' ')"
}
signal() {
  look
  for pid in $pids; do kill -s "$1" "$pid" 2>/dev/null; done
}
# wait_for SECONDS: until none is left.
wait_for() {
  seconds=$1
  while look && [ -n "$pids" ]; do
    [ "$seconds" -gt 0 ] || return 1
    seconds=$((seconds - 1))
    sleep 1
  done
}
signal TERM
! wait_for 10 || exit 0
signal KILL
! wait_for 5 || exit 0
echo "gpu-node: still there after KILL, waiting for a device or a disk: $(printf '%s' "$pids" | tr '\n' ' ')" >&2
exit 1
