# Settle an unconfirmed change: keep a replaced file permanently, or restore it.
# Variables: those of pending.sh, action (reread: have its daemon read it, keep, restore), file, key
# (what the names of its records begin with), after (for keep: sha256 of what was written, or empty).
# Needs: as_user_within place pending
# shellcheck shell=sh disable=SC2154
cd / || exit 1
found='' failed=''
for each in "$pending/$key-"*/undo; do
  [ -f "$each" ] || continue
  record=${each%/undo}
  case $action in
    (reread) [ ! -f "$record/then" ] || sh "$record/then" || exit 1 ;;
    (keep)
      hold "$record" || continue
      found=yes
      # On the disk it decides also where the removal is not, and the power fails.
      : >"$record/kept" && durable "$record/kept"
      remove "$record"
      ;;
    (restore)
      sh "$each"
      case $? in (0) found=yes ;; (3) ;; (*) found=yes failed=yes ;; esac
      ;;
  esac
done
[ -z "$failed" ] || exit 1
[ -z "$found" ] && [ "$action" != reread ] || exit 0
# Another run, whose session opened with it, may have confirmed it before.
[ -n "$after" ] && [ "$(as_owner "sha256sum <$(quoted "$file")" </dev/null | cut -d' ' -f1)" = "$after" ] ||
  { echo "gpu-node: $file: was undone already, run again" >&2; exit 1; }
