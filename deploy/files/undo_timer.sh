# Replace a file, and make the node undo that unless a new session confirms it in time.
# Variables: those of pending.sh, file, before (sha256 or "absent"), after (sha256), again, confirm
# (seconds), record (its folder), undo (the record's script), then (sh: has a daemon read the file, or
# empty), run (what replaces the file).
# stdin: what replace.sh reads.
# Needs: as_user_within place lock pending
# shellcheck shell=sh disable=SC2154
set -u
umask 022
refuse() { echo "gpu-node: $file: $1" >&2; exit 1; }
fail() {
  rm -rf "$made" "$record"
  tidy
  refuse "$1"
}

# The record contains the file's current content: undoing the change needs nothing else. It
# appears complete: what a killed run has begun is replaced.
write_record() {
  made=$pending/.made
  mkdir -p "${pending%/*}" && { mkdir -m 700 "$pending" 2>/dev/null || is_closed "$pending"; } ||
    refuse "$pending is not a folder that only root can read; nothing was changed"
  [ ! -e "$record" ] || refuse "an earlier change is not yet confirmed; nothing was changed, run again"
  (rm -rf "$made" && umask 077 && mkdir "$made") || fail "cannot write in $pending; nothing was changed"
  if [ "$before" != absent ]; then
    at=$(quoted "$file")
    (umask 077; as_owner "[ -f $at ] && cat $at" 'head -c 16777217' </dev/null >"$made/old" 2>/dev/null)
    now=$(sha256sum <"$made/old" | cut -d' ' -f1)
    [ "$now" = "$before" ] || changed "$now"
  fi
  (
    umask 077
    printf '%s\n%s\n%s\n' "$user" "$file" "$after" >"$made/about" &&
      { [ -z "$then" ] || printf '%s\n' "$then" >"$made/then"; } && printf '%s\n' "$undo" >"$made/undo"
  ) || fail "cannot write in $pending (disk full?); nothing was changed"
  undo_at_boot || fail "cannot write ${unit}; nothing was changed"
  for each in "$made"/* "$unit"; do
    [ ! -f "$each" ] || durable "$each" || fail "cannot write $each (disk full?); nothing was changed"
  done
  renamed "$made" "$record" || fail "cannot write in $pending; nothing was changed"
  # An older sync(1) accepts no names and syncs all disks, and one may hang. busybox's timeout
  # continues to wait after its program has ended: it must not hold the lock.
  case $(sync --help 2>&1) in
    *FILE*)
      ! command -v timeout >/dev/null 2>&1 ||
        timeout 20 sync "$record" "$pending" "${unit%/*}" "${wanted%/*}" 2>/dev/null 9>&- || :
      ;;
  esac
}

changed() {
  rm -rf "$made"
  tidy
  [ "$1" != "$after" ] || { echo "gpu-node: $file: another run has written the same"; exit 0; }
  [ "$again" != yes ] || { echo "gpu-node: $file: changed meanwhile; reading it again"; exit 75; }
  fail "changed while we worked; left as it is, run again"
}

# The end of a session may kill all its processes (KillUserProcesses of logind): a unit is in no
# session. It waits for a home that is not mounted, and for a file that is not replaced yet. It
# counts the seconds, so that a change of the clock does not matter. The unit ends with its record,
# and always with success: it belongs to root, and a report by another user would have to doubt it.
start_timer() {
  # shellcheck disable=SC2016
  watch='left=$2 tries=180
  while [ "$left" -gt 0 ]; do
    [ -e "$1/undo" ] || exit 0
    sleep 1
    left=$((left - 1))
  done
  while [ -e "$1/undo" ] && [ "$tries" -gt 0 ]; do
    if [ -d "/proc/$3" ]; then sh "$1/undo" wait; else sh "$1/undo"; fi
    [ ! -e "$1/undo" ] || sleep 5
    tries=$((tries - 1))
  done
  exit 0'
  if has_systemd && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --unit="gpu-node-undo-${record##*/}-$$" \
      --description="Undo $file unless a new session confirms it" \
      /bin/sh -c "$watch" sh "$record" "$confirm" $$ </dev/null >/dev/null 2>&1 9>&-; then
    return 0
  fi
  apart=
  ! command -v setsid >/dev/null 2>&1 || apart=setsid
  # A preloaded libnccl would make it look like a job.
  (
    unset LD_PRELOAD
    exec $apart nohup sh -c "$watch" sh "$record" "$confirm" $$ </dev/null >/dev/null 2>&1 9>&-
  ) &
}

write_record
start_timer
sh -c "$run"
code=$?
# With another code it was killed: the file may be replaced, and the timer handles it.
case $code in 1 | 75) rm -rf "$record"; tidy ;; esac
exit "$code"
