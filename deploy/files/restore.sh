# Put a replaced file back as it was before the replacement that nobody confirmed.
# Variables: file, undo (what undo.sh says).
# shellcheck shell=sh disable=SC2154
set -u
real=$(readlink -f "$file") || exit 1
found=
for mark in "${real%/*}/.${real##*/}.gpu-node-"*; do
  [ -e "$mark" ] || continue
  found=yes
  mark=$mark file=$file sh -c "$undo" || exit 1
done
[ -n "$found" ] || { echo "gpu-node: $file: was undone already" >&2; exit 1; }
