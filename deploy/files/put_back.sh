# Undo the change of a record as the owner of its file, unless it was confirmed, or changed since.
# $1: `wait` keeps the record if the file is not replaced yet.
# Variables: those of pending.sh, record (the folder), undo (undo.sh with its variables), then (sh:
# a daemon may have to read the file anew).
# Exit: 0 put back, 3 nothing waits, 4 another has changed it since; else it failed, and the record
# stays.
# shellcheck shell=sh disable=SC2154
set -u
cd / || exit 1
old=/dev/null
[ ! -f "$record/old" ] || old=$record/old
as_owner "$undo" <"$old"
code=$?
case $code in
  0) sh -c "$then" || code=1 ;;
  3) [ "${1-}" != wait ] || exit 3 ;;
  4) ;;
  *) exit 1 ;;
esac
rm -rf "$record"
tidy
exit "$code"
