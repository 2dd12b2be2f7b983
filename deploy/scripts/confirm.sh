# Keep a replaced file for good: take away the mark that would have it undone.
# Variables: file, backups.
# shellcheck shell=sh disable=SC2154
real=$(readlink -f "$file") || exit 1
pending=${real%/*}/.${real##*/}.gpu-node-${backups##*/}
[ -e "$pending" ] || { echo "gpu-node: $file: was undone already" >&2; exit 1; }
rm -f "$pending"
