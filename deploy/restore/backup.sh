# Print what a backup of a run holds, if only root can have changed it.
# Variables: top (the folder of all runs), backup (a file below it), reading (sh that prints it:
# facts/probe/file_bytes.py).
# Needs: writers closed sound
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
cd / || exit 1
sound "$top" "$backup" || { echo "gpu-node: $why" >&2; exit 1; }
eval "$reading"
