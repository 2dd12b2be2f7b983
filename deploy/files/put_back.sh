# Undo the change of a record as the owner of its file, unless it was confirmed, or changed since.
# $1: `wait` keeps the record if the file is not replaced yet.
# Variables: those of pending.sh, record (the folder), undo (undo.sh with its variables), then (sh:
# a daemon may have to read the file anew).
# Exit: 0 put back, 3 nothing waits, 4 another has changed it since; else it failed, and the record
# stays: with `restored` in it where only the daemon is left.
# shellcheck shell=sh disable=SC2154
set -u
cd / || exit 1
old=/dev/null
[ ! -f "$record/old" ] || old=$record/old
code=0
[ -e "$record/restored" ] || { as_owner "$undo" <"$old"; code=$?; }
case $code in
  0)
    : >"$record/restored"
    sh -c "$then" || {
      echo "gpu-node: $(sed -n 2p "$record/about"): the earlier file is in place, and its daemon did not read it" >&2
      exit 1
    }
    ;;
  3) [ "${1-}" != wait ] || exit 3 ;;
  4) ;;
  *) exit 1 ;;
esac
rm -rf "$record"
tidy
exit "$code"
