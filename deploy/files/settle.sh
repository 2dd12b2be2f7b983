# Settle an unconfirmed change: keep a replaced file permanently, or restore it.
# Variables: those of pending.sh, action (reread: have its daemon read it, keep, restore), file, key
# (what the names of its records begin with), run (for keep: confirm.sh, for restore: restore.sh).
# Needs: as_user_within pending
# shellcheck shell=sh disable=SC2154
set -u
cd / || exit 1
case $action in
  reread)
    for each in "$pending/$key-"*/then; do
      [ ! -f "$each" ] || sh "$each" || exit 1
    done
    ;;
  keep)
    runs=$(as_owner "$run" </dev/null) || exit 1
    for each in $runs; do
      case $each in *[!0-9A-Za-z-]*) ;; *) rm -rf "$pending/$key-$each" ;; esac
    done
    tidy
    ;;
  restore)
    found='' failed=''
    for each in "$pending/$key-"*/undo; do
      [ -f "$each" ] || continue
      sh "$each"
      case $? in 0) found=yes ;; 3) ;; *) found=yes failed=yes ;; esac
    done
    [ -z "$failed" ] || exit 1
    # A mark may be from a version without records.
    [ -n "$found" ] || as_owner "$run" </dev/null
    ;;
esac
