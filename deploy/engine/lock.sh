# One change at a time on a node: a second run waits, and reports which run it waits for; it also
# waits for processes that a killed run has left.
# Variables: lock (the file that is locked), origin (who runs this, and where).
# Given: lock origin patience_for_runs
# shellcheck shell=sh disable=SC2154
# Without flock(1), or without that folder, it continues without a lock: nothing else is lost. Who may
# read a file may lock it, and for ever: no other user may.
if command -v flock >/dev/null 2>&1 && (umask 077; : >>"$lock" && chmod 600 "$lock") 2>/dev/null; then
  exec 9>>"$lock"
  waited=0
  shown=
  until flock -n 9; do
    other=$(head -n 1 "$lock" 2>/dev/null | cut -c 1-300)
    case $other in ('pid '[0-9]*) pid=${other#pid } ;; (*) other='' pid=self ;; esac
    [ -d "/proc/${pid%%,*}" ] || other="$other, which has ended: a process that it started is still running"
    other=${other:-unknown}
    [ "$waited" -lt "$patience_for_runs" ] ||
      { echo "gpu-node: another run is at work here and holds $lock ($other); nothing was changed, run again" >&2; exit 1; }
    [ "$other" = "$shown" ] || echo "gpu-node: waits for another run on this node: $other"
    shown=$other
    waited=$((waited + 1))
    sleep 1
  done
  echo "pid $$, user ${SUDO_USER:-$(id -un 2>/dev/null || id -u)}, from $origin" >"$lock"
fi
