# Make a file that is not there yet, empty. Runs as whose it is to be.
# Variables: file.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
set -C # whatever appears there meanwhile is not ours to empty
( : >"$file" ) 2>/dev/null || {
  # Another run may have made it just then; what is written into it is decided by its content.
  [ -f "$file" ] && [ ! -L "$file" ] && [ -O "$file" ] && exit 0
  echo "gpu-node: $file: cannot be made, or appeared while we worked; nothing was changed" >&2
  exit 1
}
