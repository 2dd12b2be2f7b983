# Put a replaced file back as its mark says, unless somebody wrote to it since.
# Variables: mark (first line: the backup, or empty for no file; second: sha256 of what was written),
# file.
# shellcheck shell=sh disable=SC2154
set -u
real=$(readlink -f "$file") || exit 1
mv "$mark" "$mark.undo" 2>/dev/null || exit 0 # confirmed, or undone already
saved=$(sed -n 1p "$mark.undo")
written=$(sed -n 2p "$mark.undo")
if [ "$(sha256sum <"$real" | cut -d' ' -f1)" != "$written" ]; then
  rm -f "$mark.undo"
  echo "gpu-node: $file: was changed by somebody else, and left as it is" >&2
  exit 1
fi
if [ -n "$saved" ]; then
  cp -p "$saved" "$mark.old" && mv -f "$mark.old" "$real"
else
  rm -f "$real"
fi && rm -f "$mark.undo"
