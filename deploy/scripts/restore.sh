# Put a replaced file back as it was before this run.
# Variables: file, backups, existed (yes or no).
# shellcheck shell=sh disable=SC2154
set -eu
real=$(readlink -f "$file")
new=${real%/*}/.${real##*/}.gpu-node
if [ "$existed" = yes ]; then
  cp -p "$backups$real" "$new"
  mv -f "$new" "$real"
else
  rm -f "$real"
fi
rm -f "$new-${backups##*/}"
