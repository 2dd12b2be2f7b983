# One change at a time on a node: whoever comes second waits, for what a killed run left at work too.
# Variables: lock (the file that is locked).
# shellcheck shell=sh disable=SC2154
# Where there is no flock(1), or no such folder, it goes on without: nothing else is lost.
if command -v flock >/dev/null 2>&1 && (: >>"$lock") 2>/dev/null; then
  exec 9>>"$lock"
  waited=0
  until flock -n 9; do
    waited=$((waited + 1))
    [ "$waited" -le 600 ] || { echo "gpu-node: another run is at work here and holds $lock; run again" >&2; exit 1; }
    sleep 1
  done
fi
