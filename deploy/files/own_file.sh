# Create a missing file, empty. Runs as its future owner.
# Variables: file.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
set -C # whatever appears there meanwhile is not ours to empty
( : >"$file" ) 2>/dev/null || {
  # Another run may have created it at this moment; its content decides what is written.
  [ -f "$file" ] && [ ! -L "$file" ] && [ -O "$file" ] && exit 0
  echo "gpu-node: $file: cannot be made, or appeared while we worked; nothing was changed" >&2
  exit 1
}
