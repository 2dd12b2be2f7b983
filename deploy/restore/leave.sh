# Leave restore.sh in the folder of a run, before its first change.
# Variables: folder (of the run). stdin: one line, a printf format.
# Needs: writers closed place
# shellcheck shell=sh disable=SC2154,SC2059
umask 077
IFS= read -r format && closed "${folder%/*}" "$folder" || { echo "gpu-node: $folder: ${why:-nothing arrived}" >&2; exit 1; }
printf "$format" >"$folder/.restore.sh" && place "$folder/.restore.sh" "$folder/restore.sh" ||
  { echo "gpu-node: $folder/restore.sh cannot be written (disk full?)" >&2; exit 1; }
