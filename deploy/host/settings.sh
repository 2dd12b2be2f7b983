# Have the node as a file of ours says: settings of the kernel, modules or services. What the file does not have (any more)
# is again as it was before the first run that set it, which a record has. It may run at any time, and again.
# Variables: kind (sysctl, module, service), file (lines `NAME = VALUE`, or NAME of a module), record (such lines).
# Needs: place
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin
umask 022
# of FILE NAME: the value that it has; fails where it has none.
of() { awk -v name="$2" '$1 == name { $1 = $2 = ""; sub(/^ +/, ""); print; found = 1; exit } END { exit !found }' "$1" 2>/dev/null; }
names() { cat "$file" "$record" 2>/dev/null | awk '$1 ~ /^[A-Za-z0-9][A-Za-z0-9_.@-]*$/ && !seen[$1]++ { print $1 }'; }
shown() { systemctl show -p "$2" "$1.service" 2>/dev/null | sed 's/^[^=]*=//'; }
# now NAME: its value; become NAME VALUE: what gives it that.
case $kind in
  (sysctl)
    path() { printf '/proc/sys/%s\n' "$1" | tr . /; }
    now() { awk 'NR == 1 { $1 = $1; print }' "$(path "$1")" 2>/dev/null; }
    become() { { printf '%s\n' "$2" >"$(path "$1")"; } 2>/dev/null || { echo 'the kernel refuses it'; return 1; }; }
    ;;
  (module)
    # A job may use one that is loaded: it stays. One that is part of the kernel may have no folder.
    now() { :; }
    become() { ! of "$file" "$1" >/dev/null || [ -d "/sys/module/$1" ] || modprobe -- "$1"; }
    ;;
  (service)
    # One that runs once has run, if it is enabled. One that still starts needs longer than a run waits for it.
    now() {
      is=disabled runs=inactive
      [ "$(shown "$1" UnitFileState)" != enabled ] || is=enabled
      case $(shown "$1" ActiveState):$(shown "$1" Type):$is in
        (active:* | reloading:* | activating:* | inactive:oneshot:enabled) runs=active ;;
      esac
      echo "$is $runs"
    }
    # A reload of systemd would take the GPUs from running containers.
    become() {
      case $2 in (enabled*) verb=enable ;; (*) verb=disable ;; esac
      systemctl --no-reload "$verb" "$1.service" || return
      case $2 in (*inactive) verb=stop ;; (*) verb=start ;; esac
      systemctl --no-block "$verb" "$1.service" && sleep 2
    }
    ;;
esac
all=$(names)
for name in $all; do
  of "$record" "$name" >/dev/null || echo "$name = $(now "$name")"
done | cat "$record" - 2>/dev/null | put "$record" ||
  { echo "gpu-node: $record cannot be written (disk full?); nothing was changed" >&2; exit 1; }
failed=''
for name in $all; do
  value=$(of "$file" "$name") || value=$(of "$record" "$name")
  [ "$(now "$name")" != "$value" ] || [ "$kind" = module ] || continue
  if why=$(become "$name" "$value" 2>&1); then
    has=$(now "$name") why="it is ${has:-unknown}"
    [ "$has" != "$value" ] || continue
  fi
  failed=yes
  echo "gpu-node: $name: ${value:+is not $value: }$(printf '%s\n' "$why" | tail -n 1)" >&2
done
[ -z "$failed" ] || exit 1
# The record keeps what the file has.
for name in $all; do
  ! of "$file" "$name" >/dev/null || echo "$name = $(of "$record" "$name")"
done | put "$record"
[ -s "$record" ] || rm -f "$record"
