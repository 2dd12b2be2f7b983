# Write one file as a whole, as its owner: a new one beside it, checked, then renamed into place.
# Variables: file, before (sha256 of what it is to hold now, or "absent"), after (sha256 of stdin, or
# "absent": it is removed), mode (of a new file: 644, or 600 in a folder for its owner alone), owners (of a
# new file of root: UID:GID, or empty), check (sh
# that gets the new and the old file, or empty), owner (root: no other user may be able to put another
# file in its place), unchanged (what a message says about the file that stays).
# stdin: the new content.
# Exit: 0 written, 3 it holds that already, 4 it holds neither, 1 it could not be written.
# Needs: writers closed place
# shellcheck shell=sh disable=SC2154
case $mode in (600) umask 077 ;; (*) umask 022 ;; esac
fail() { echo "gpu-node: $file: $1; $unchanged" >&2; exit 1; }
sum() { if [ -e "$1" ]; then sha256sum <"$1" | cut -d' ' -f1; else echo absent; fi; }

if [ "$owner" = root ]; then
  # Where another user may write, a link could lead root to any file.
  folder=${file%/*}
  [ "$mode" != 600 ] || [ -e "$folder" ] || { trusted "${folder%/*}" && mkdir "$folder"; } || fail "$why"
  trusted "$file" || fail "$why"
else
  [ "$before" != absent ] || mkdir -p "${file%/*}" || fail "its directory cannot be made"
  real=$(readlink -f "$file") && [ -d "${real%/*}" ] || fail "its folder does not exist"
fi
if [ -e "$real" ]; then
  [ -f "$real" ] || fail "is not a regular file"
  [ "$(stat -c %s "$real")" -le 16777216 ] || fail "is larger than 16 MiB"
  [ -O "$real" ] || [ "$owner" = root ] || [ "$(stat -c %h "$real")" = 1 ] ||
    fail "is another user's file, too (a hard link)"
fi
new=${real%/*}/.${real##*/}.gpu-node
# An existing file, from a killed run or another program, is never written to.
rm -f "$new"
now=$(sum "$real")
[ "$now" != "$after" ] || exit 3
[ "$now" = "$before" ] || exit 4
if [ "$after" = absent ]; then
  rm -f "$real" || fail "cannot be removed"
  exit 0
fi

trap 'rm -f "$new"' EXIT
(set -C; : >"$new") 2>/dev/null || fail "cannot write beside it"
# A copy has the mode, the owner and the access list of the old one.
if [ "$before" = absent ]; then
  { [ -z "$owners" ] || [ "$owner" != root ] || chown "$owners" "$new"; } && chmod "$mode" "$new"
else
  cp -p "$real" "$new"
fi ||
  fail "cannot write beside it"
cat >"$new" && durable "$new" || fail "cannot be written (disk full?)"
[ "$(sum "$new")" = "$after" ] || fail "was not written whole (disk full?)"
if [ -n "$check" ]; then
  output=$(sh -c "$check" check "$new" "$real" 2>&1) || fail "the check refused it: $output"
fi
renamed "$new" "$real" || fail "$(why_not_renamed "$real")"
trap - EXIT
if command -v restorecon >/dev/null 2>&1; then
  # A folder for its owner alone may have been made with the file.
  [ "$before:$mode" != absent:600 ] || restorecon "${real%/*}" >/dev/null 2>&1
  restorecon "$real" >/dev/null 2>&1
fi
# A link stays one, and what it leads to may be under another tool's management.
[ "$real" = "$file" ] || echo "gpu-node: $file leads to $real: that file was replaced, and the link stays"
