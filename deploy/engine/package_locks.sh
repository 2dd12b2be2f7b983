# Wait while another program holds a lock of rpm, dnf, yum, apt or dpkg, and report which one does.
# Variables: holding (sh that lists them, a FILE, a pid and a command a line), patience (seconds).
# Given: holding patience
# shellcheck shell=sh disable=SC2012,SC2034,SC2154
# After apt, needrestart would restart services and re-execute systemd.
NEEDRESTART_SUSPEND=yes; export NEEDRESTART_SUSPEND
tab=$(printf '\t')
lock_seconds=0
lock_shown=
# holder: the lock that is held, and its holder; nothing if none is held
holder() {
  (eval "$holding") 2>/dev/null | head -n 1 | while IFS=$tab read -r file pid command; do
    user=$(ls -ld "/proc/$pid" 2>/dev/null | awk '{ print $3 }')
    echo "$file, held by pid $pid${command:+ ($command)}${user:+ of $user}"
  done
}
# is_locked TEXT: whether a package manager that failed gives a lock as the reason
is_locked() {
  case $1 in
    (*'transaction lock'* | *'yum lock'* | *'database is locked'* | *'Could not get lock'*) ;;
    (*'exclusive lock'* | *'shared lock'* | *'Unable to lock'* | *'is locked by another process'*) ;;
    (*' lock was locked'*) ;;
    (*) return 1 ;;
  esac
}
# wait_once LOCK: a second, and a line for each lock that is new; at the end of patience it fails
wait_once() {
  [ "$lock_seconds" -lt "$patience" ] ||
    fail "gave up after $patience s: another program uses the package database: $1; run again when it has ended"
  [ "$1" = "$lock_shown" ] || echo "gpu-node: waits for $1"
  lock_shown=$1
  lock_seconds=$((lock_seconds + 1))
  sleep 1
}
wait_for_locks() {
  while lock=$(holder); [ -n "$lock" ]; do wait_once "$lock"; done
}
# patient COMMAND...: run it, with its output in `output`; again where a lock made it fail
patient() {
  while :; do
    wait_for_locks
    output=$("$@" 2>&1 </dev/null) && return 0
    lock=$(holder)
    [ -n "$lock" ] || ! is_locked "$output" || lock=$(echo "$output" | grep -i lock | head -n 1 | cut -c 1-200)
    [ -n "$lock" ] || return 1
    wait_once "$lock"
  done
}
