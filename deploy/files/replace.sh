# Replace one file as a whole: back it up, write a new one beside it, check that, rename it.
# Variables: file, before (sha256 or "absent"), after (sha256), backups, check (a command or empty),
# confirm (seconds until it is undone unless confirmed, or empty), undo (what undo.sh says, then),
# again (yes: the caller reads the file again where it is not as `before` says).
# stdin: one line, a printf format.
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
  [ "$again" != yes ] || { echo "gpu-node: $file: $1 meanwhile; it is read again"; exit 75; }
  fail "$1 while we worked; $2, run again"
}

IFS= read -r format || fail "no content arrived; nothing was changed"
if [ "$before" = absent ]; then
  mkdir -p "${file%/*}" || fail "its directory cannot be made; nothing was changed"
fi
real=$(readlink -f "$file") || fail "cannot be resolved; nothing was changed"
if [ "$real" != "$file" ] && [ -e "$real" ]; then
  # Of root, it would write for a user what that user may not write.
  [ "$(stat -c %u "$real")" = "$(stat -c %u "${file%/*}/")" ] ||
    fail "is a link to a file of another owner ($real); nothing was changed"
fi
new=${real%/*}/.${real##*/}.gpu-node
pending=$new-${backups##*/}
saved=$backups$real
trap 'rm -f "$new"' EXIT
# What lies there, of a killed run or of somebody else, is never written into.
rm -f "$new"
(set -C; : >"$new") 2>/dev/null || fail "cannot write beside it; nothing was changed"

if [ "$before" = absent ]; then
  [ ! -e "$real" ] || changed appeared "nothing was changed"
  { : >"$new" && chmod 644 "$new"; } || fail "cannot write beside it; nothing was changed"
  saved=
else
  [ "$(sum "$real")" = "$before" ] || changed changed "left as it is"
  mkdir -p "${saved%/*}" || fail "no backup can be kept in $backups; nothing was changed"
  [ -e "$saved" ] || cp -p "$real" "$saved" ||
    { rm -f "$saved"; fail "cannot be backed up; nothing was changed"; }
  cp -p "$real" "$new" || fail "cannot write beside it; nothing was changed"
fi
printf "$format" >"$new" || fail "cannot be written (disk full?); nothing was changed"
[ "$(sum "$new")" = "$after" ] || fail "was not written whole (disk full?); nothing was changed"
if [ -n "$check" ]; then
  said=$(sh -c "$check" check "$new" "$real" 2>&1) || fail "the check refused it: $said"
fi

if [ -n "$confirm" ]; then
  for other in "$new-"*; do
    [ ! -e "$other" ] || fail "an earlier change waits to be confirmed; nothing was changed, run again"
  done
  # Undo it by itself if nobody confirms from a new session: the controller may be gone by then.
  printf '%s\n%s\n' "$saved" "$after" >"$pending" ||
    { rm -f "$pending"; fail "no mark for undoing it can be left; nothing was changed"; }
  # It ends with its mark: a report by a user who is not root cannot look into a process of root's,
  # and would have to call every segment in doubt. A folder that is away, as NFS can be, is waited for.
  watch='while [ "$left" -gt 0 ]; do
    [ -e "$mark" ] || [ ! -e "${mark%/*}" ] || exit 0
    sleep 1
    left=$((left - 1))
  done'
  # A libnccl that is preloaded would make it look like a job.
  (
    unset LD_PRELOAD
    left=$confirm mark=$pending file=$real
    export left mark file
    exec nohup sh -c "$watch; $undo" </dev/null >/dev/null 2>&1 9>&-
  ) &
fi
mv -f "$new" "$real" ||
  { rm -f "$pending"; fail "cannot be renamed into place; nothing was changed"; }
trap - EXIT
! command -v restorecon >/dev/null 2>&1 || restorecon "$real" >/dev/null 2>&1 || :
