# Replace one file: keep a backup and a line about it, write it as its owner, and undo that in time
# unless a new session confirms it.
# Variables: those of pending.sh, file, before (sha256 or "absent"), after (sha256, or "absent"), backups (this run's
# folder), again (yes: the caller reads the file again where it is not as `before` says), write (write.sh
# with its variables), confirm (seconds; 0: it needs no confirmation). With seconds also key (how the names
# of the file's records begin), record (the folder of this one), undo (undo.sh with its variables), then
# (sh: has a daemon read the file, or empty), copy (a file of root's with the new content, or empty).
# stdin, without a copy: one line, a printf format.
# Needs: writers closed as_user_within place record noted lock pending
# shellcheck shell=sh disable=SC2154,SC2059
umask 077
was=${backups%/*}/.was
trap 'rm -f "$was" "$was.read"' EXIT
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }

# The file was read before the lock was taken, and another run may have written it since.
changed() {
  [ "$1" != "$after" ] || { echo "gpu-node: $file: another run has written the same"; exit 0; }
  how=changed
  [ "$before" != absent ] || how=appeared
  [ "$again" != yes ] || { echo "gpu-node: $file: $how meanwhile; reading it again"; exit 75; }
  [ "$how" = changed ] || fail "appeared while we worked; nothing was changed, run again"
  fail "cannot be read, or changed while we worked; left as it is, run again"
}

# read_file: $was gets what the file holds, and `kind` its mode and owner. Root may have no access to
# a mounted home: the user reads the file, whatever it is, and root counts the bytes, because a user's
# process could write without end.
read_file() {
  if [ -z "$user" ]; then
    trusted "$file" || fail "$why; nothing was changed"
    [ -e "$real" ] || changed absent
    [ -f "$real" ] || fail "is not a regular file; nothing was changed"
    [ "$(stat -c %s "$real")" -le 16777216 ] || fail "is larger than 16 MiB; nothing was changed"
    kind=$(stat -c '%a %u:%g' "$real") && cp -p "$real" "$was"
  else
    at=$(quoted "$file")
    as_user_within 120 "[ -f $at ] && stat -L -c '%a %u:%g' $at && cat $at" \
      'head -c 16777280' </dev/null >"$was.read" &&
      kind=$(head -n 1 "$was.read") && tail -n +2 "$was.read" >"$was"
  fi || fail "cannot be backed up; nothing was changed"
  now=$(sha256sum <"$was" | cut -d' ' -f1)
  [ "$now" = "$before" ] || changed "$now"
  printf '%s\n' "$kind" | grep -qx '[0-7]\{1,4\} [0-9]\{1,10\}:[0-9]\{1,10\}' ||
    fail "its mode cannot be read; nothing was changed"
}

# The line is that of noted.sh; mode and owner are those that the file had. No value from the user decides
# where the backup is.
keep() {
  closed "${backups%/*}" "$backups" ||
    fail "no backup can be kept in $backups: $why; nothing was changed"
  rm -f "$was" "$was.read"
  kind='- -'
  if [ "$before" != absent ]; then
    read_file
    noted_copy "$file" "$was" || fail "no backup can be kept in $backups: $why; nothing was changed"
  fi
  line=$(record "$before" "$after" "${kind% *}" "${kind#* }" "${user:-root}" "$file")
  noted_line manifest "$line" || fail "$backups/manifest cannot be written ($why); nothing was changed"
}

# The record contains the file's current content: undoing the change needs nothing else. It
# appears complete: what a killed run has begun is replaced.
write_record() {
  mkdir -p "${pending%/*}" && { mkdir -m 700 "$pending" 2>/dev/null || is_closed "$pending"; } ||
    fail "$pending is not a folder that only root can read; nothing was changed"
  for each in "${record%/*}/$key-"*/undo; do
    [ ! -e "$each" ] || fail "an earlier change is not yet confirmed; nothing was changed, run again"
  done
  made=$pending/.made
  rm -rf "$made" "$record" && mkdir "$made" && {
    [ "$before" = absent ] || cp "$was" "$made/old"
  } && printf '%s\n' "$line" >"$made/about" && { [ -z "$then" ] || printf '%s\n' "$then" >"$made/then"; } &&
    printf '%s\n' "$undo" >"$made/undo" || drop "cannot write in $pending (disk full?)"
  undo_at_boot || drop "cannot write $unit"
  for each in "$made"/* "$unit"; do
    [ ! -f "$each" ] || durable "$each" || drop "cannot write $each (disk full?)"
  done
  # What undoes or confirms the change waits until this script has ended.
  hold "$made" && renamed "$made" "$record" || drop "cannot write in $pending"
  # An older sync(1) accepts no names and syncs all disks, and one may hang. busybox's timeout
  # continues to wait after its program has ended: it must not hold the lock.
  case $(sync --help 2>&1) in
    (*FILE*)
      ! command -v timeout >/dev/null 2>&1 ||
        timeout 20 sync "$record" "$pending" "${unit%/*}" "${wanted%/*}" 2>/dev/null 8<&- 9>&- || :
      ;;
  esac
}

# drop [WHY]: removes the record of a change that was not made.
drop() {
  [ "$confirm" = 0 ] || { rm -rf "$pending/.made"; remove "$record"; }
  [ $# = 0 ] || fail "$1; nothing was changed"
}

# The end of a session may kill all its processes (KillUserProcesses of logind): a unit is in no
# session. It counts the seconds, so that a change of the clock does not matter, and waits for a home
# that is not mounted. The unit ends with its record, and always with success: it belongs to root, and
# a report by another user would have to doubt it.
start_timer() {
  # shellcheck disable=SC2016
  watch='left=$2 tries=180
  while [ "$left" -gt 0 ]; do
    [ -e "$1/undo" ] || exit 0
    sleep 1
    left=$((left - 1))
  done
  while [ -e "$1/undo" ] && [ "$tries" -gt 0 ]; do
    sh "$1/undo"
    [ ! -e "$1/undo" ] || sleep 5
    tries=$((tries - 1))
  done
  exit 0'
  if has_systemd && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --unit="gpu-node-undo-${record##*/}-$$" \
      --description="Undo $file unless a new session confirms it" \
      /bin/sh -c "$watch" sh "$record" "$confirm" </dev/null >/dev/null 2>&1 8<&- 9>&-; then
    return 0
  fi
  apart=
  ! command -v setsid >/dev/null 2>&1 || apart=setsid
  # A preloaded libnccl would make it look like a job.
  (
    unset LD_PRELOAD
    exec $apart nohup sh -c "$watch" sh "$record" "$confirm" </dev/null >/dev/null 2>&1 8<&- 9>&-
  ) &
}

[ -n "$copy" ] || IFS= read -r format || fail "no content arrived; nothing was changed"
keep
[ "$confirm" = 0 ] || { write_record && start_timer; }
if [ -n "$copy" ]; then cat <"$copy"; else printf "$format"; fi | as_owner "$write"
code=$?
case $code in
  (0) ;;
  (1) drop ;;
  (3) drop; changed "$after" ;;
  (4) drop; changed other ;;
  # It was killed: the file may be replaced, and the timer handles it.
esac
exit "$code"
