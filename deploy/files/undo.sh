# Restore a replaced file, unless it was confirmed or changed since. Runs as its owner.
# Variables: file, mark (what the mark's name ends with: the run), before (sha256 or "absent"), after
# (sha256 of what was written). stdin: what the file held.
# Exit: as put_back.sh.
# Needs: place
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: $file: $1" >&2; exit "${2:-1}"; }
sum() { sha256sum <"$1" | cut -d' ' -f1; }
real=$(readlink -f "$file") && [ -d "${real%/*}" ] || fail "its folder does not exist; it could not be restored"
mark=${real%/*}/.${real##*/}.gpu-node-$mark
# Renaming a mark decides. A mark that is already renamed is from a node that went down meanwhile.
if ! mv "$mark" "$mark.undo" 2>/dev/null; then
  [ ! -e "$mark" ] || fail "cannot be written; it could not be restored"
  [ -e "$mark.undo" ] || exit 3
fi
now=absent
[ ! -e "$real" ] || now=$(sum "$real")
if [ "$now" = "$before" ]; then
  rm -f "$mark.undo"
  exit 0
elif [ "$now" != "$after" ]; then
  rm -f "$mark.undo"
  fail "was changed by another program, and left as it is" 4
fi
if [ "$before" = absent ]; then
  rm -f "$real"
else
  cp -p "$real" "$mark.old" && cat >"$mark.old" && [ "$(sum "$mark.old")" = "$before" ] &&
    place "$mark.old" "$real"
fi || {
  rm -f "$mark.old"
  mv "$mark.undo" "$mark"
  fail "cannot be written (disk full?); it could not be restored"
}
rm -f "$mark.undo"
