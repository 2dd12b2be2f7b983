# Make a file that is not there yet, empty. Runs as whose it is to be.
# Variables: file.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
set -C # whatever appears there meanwhile is not ours to empty
( : >"$file" ) 2>/dev/null || {
  echo "gpu-node: $file: cannot be made, or appeared while we worked; nothing was changed" >&2
  exit 1
}
