# Undo the change of a record as the owner of its file, unless it was confirmed, or changed since.
# Variables: those of pending.sh, record (the folder), file, write (write.sh with its variables), then (sh:
# a daemon may have to read the file again).
# Exit: 0 undone, 3 nothing waits, 4 another has changed it since; else it failed, and the record stays.
# Needs: as_user_within place pending
# shellcheck shell=sh disable=SC2154
cd / || exit 1
hold "$record" || exit 3
[ ! -e "$record/kept" ] || { remove "$record"; exit 3; }
old=/dev/null
[ ! -f "$record/old" ] || old=$record/old
code=0
[ -e "$record/restored" ] || { as_owner "$write" <"$old" >/dev/null; code=$?; }
case $code in
  (0 | 3)
    code=0
    : >"$record/restored"
    sh -c "$then" 8<&- || {
      echo "gpu-node: $file: the earlier file is in place, and its daemon did not read it" >&2
      exit 1
    }
    ;;
  (4) echo "gpu-node: $file: was changed by another program, and left as it is" >&2 ;;
  (*) exit 1 ;;
esac
remove "$record"
exit "$code"
