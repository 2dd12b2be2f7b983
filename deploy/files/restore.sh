# Restore a replaced file by its mark, for a run that left no record.
# Runs as the file's owner. Variables: file.
# Needs: place
# shellcheck shell=sh disable=SC2154
set -u
real=$(readlink -f "$file") || exit 1
found=
for mark in "${real%/*}/.${real##*/}.gpu-node-"*; do
  case $mark in *.undo | *.old | *.kept) continue ;; esac
  mv "$mark" "$mark.undo" 2>/dev/null || continue
  found=yes
  saved=$(sed -n 1p "$mark.undo")
  if [ "$(sha256sum <"$real" | cut -d' ' -f1)" != "$(sed -n 2p "$mark.undo")" ]; then
    rm -f "$mark.undo"
    echo "gpu-node: $file: was changed by another program, and left as it is" >&2
    exit 1
  fi
  if [ -n "$saved" ]; then
    cp -p "$saved" "$mark.old" && place "$mark.old" "$real"
  else
    rm -f "$real"
  fi && rm -f "$mark.undo" || { mv "$mark.undo" "$mark"; exit 1; }
done
[ -n "$found" ] || { echo "gpu-node: $file: was undone already" >&2; exit 1; }
