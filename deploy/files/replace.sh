# Replace one file as a whole: back it up, write a new one beside it, check that, rename it.
# Variables: file, before (sha256 or "absent"), after (sha256), backups (a folder), keep (yes: keep one
# there, as root; no: it runs as a user, for whom root has kept one), check (a command or empty),
# confirm (yes: leave a mark, a change that waits to be confirmed), again (yes: the caller reads the
# file again where it is not as `before` says).
# stdin: one line, a printf format.
# Needs: private_group closed place lock
# shellcheck shell=sh disable=SC2154,SC2059
set -u
LC_ALL=C; export LC_ALL
umask 022
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }
sum() { sha256sum <"$1" | cut -d' ' -f1; }

# The file was read before the lock was taken, and another run may have written it since.
changed() {
  [ ! -e "$real" ] || [ "$(sum "$real")" != "$after" ] || {
    echo "gpu-node: $file: another run has written the same"
    exit 0
  }
  [ "$again" != yes ] || { echo "gpu-node: $file: $1 meanwhile; reading it again"; exit 75; }
  fail "$1 while we worked; $2, run again"
}

IFS= read -r format || fail "no content arrived; nothing was changed"
if [ "$keep" = yes ]; then
  # Where another user may write, a link could lead root to any file.
  trusted "$file" || fail "$why; nothing was changed"
else
  [ "$before" != absent ] || mkdir -p "${file%/*}" || fail "its directory cannot be made; nothing was changed"
  real=$(readlink -f "$file") || fail "cannot be resolved; nothing was changed"
fi
if [ -e "$real" ]; then
  [ -f "$real" ] || fail "is not a regular file; nothing was changed"
  [ "$(stat -c %s "$real")" -le 16777216 ] || fail "is larger than 16 MiB; nothing was changed"
  [ -O "$real" ] || [ "$keep" = yes ] || [ "$(stat -c %h "$real")" = 1 ] ||
    fail "is another user's file, too (a hard link); nothing was changed"
fi
new=${real%/*}/.${real##*/}.gpu-node
pending=$new-${backups##*/}
saved=$backups$real
trap 'rm -f "$new"' EXIT
# An existing file, from a killed run or another program, is never written to.
rm -f "$new"
(set -C; : >"$new") 2>/dev/null || fail "cannot write beside it; nothing was changed"

if [ "$before" = absent ]; then
  [ ! -e "$real" ] || changed appeared "nothing was changed"
  { : >"$new" && chmod 644 "$new"; } || fail "cannot write beside it; nothing was changed"
  saved=
else
  [ "$(sum "$real")" = "$before" ] || changed changed "left as it is"
  if [ "$keep" = yes ]; then
    closed "${backups%/*}" "${saved%/*}" ||
      fail "no backup can be kept in $backups: $why; nothing was changed"
    [ -e "$saved" ] || { cp -p "$real" "$saved" && durable "$saved"; } ||
      { rm -f "$saved"; fail "cannot be backed up; nothing was changed"; }
  fi
  cp -p "$real" "$new" || fail "cannot write beside it; nothing was changed"
fi
printf "$format" >"$new" && durable "$new" || fail "cannot be written (disk full?); nothing was changed"
[ "$(sum "$new")" = "$after" ] || fail "was not written whole (disk full?); nothing was changed"
if [ -n "$check" ]; then
  output=$(sh -c "$check" check "$new" "$real" 2>&1) || fail "the check refused it: $output"
fi

if [ "$confirm" = yes ]; then
  for other in "$new-"*; do
    [ ! -e "$other" ] || fail "an earlier change is not yet confirmed; nothing was changed, run again"
  done
  # Renaming or removing the mark decides whether the change is undone: see undo_timer.sh.
  printf '%s\n%s\n' "$saved" "$after" >"$pending" ||
    { rm -f "$pending"; fail "no mark for undoing it can be left; nothing was changed"; }
fi
renamed "$new" "$real" ||
  { rm -f "$pending"; fail "cannot be renamed into place; nothing was changed"; }
trap - EXIT
! command -v restorecon >/dev/null 2>&1 || restorecon "$real" >/dev/null 2>&1 || :
# A link stays one, and what it leads to may be under another tool's management.
[ "$real" = "$file" ] || echo "gpu-node: $file leads to $real: that file was replaced, and the link stays"
