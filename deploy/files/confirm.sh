# Keep a replaced file permanently: remove the marks that would undo it. Prints their runs.
# Runs as the file's owner. Variables: file, after (sha256 of what was written, or empty).
# shellcheck shell=sh disable=SC2154
real=$(readlink -f "$file") || exit 1
kept=
for mark in "${real%/*}/.${real##*/}.gpu-node-"*; do
  case $mark in
    *.undo | *.old | *.kept) rm -f "$mark" ;; # a node that went down in the middle left it
    # Renaming a mark decides: after that the timer can no longer undo the change.
    *) mv "$mark" "$mark.kept" 2>/dev/null && rm -f "$mark.kept" && kept=yes && echo "${mark##*.gpu-node-}" ;;
  esac
done
# Another run, whose session opened with it, may have confirmed it before.
[ -n "$kept" ] || { [ -n "$after" ] && [ "$(sha256sum <"$real" | cut -d' ' -f1)" = "$after" ]; } || { echo "gpu-node: $file: was undone already, run again" >&2; exit 1; }
