# Print what earlier runs have recorded on this node, the newest first; it changes nothing. Lines: `run SECONDS
# NAME`, then of this run `manifest LINE` (see replace.sh), `also LINE` (see noted.sh) and `refused WHY`;
# `end` is the last; or `closed` alone, if only root can read them.
# Variables: top (the folder of all runs), most_runs, most_lines and most_bytes (of a record).
# Needs: writers closed sound
# shellcheck shell=sh disable=SC2154,SC2012
cd / || exit 1
if [ -e "$top" ]; then
  [ -r "$top" ] && [ -x "$top" ] || { echo closed; exit 0; }
  for each in "$top"/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T*Z*; do
    name=${each##*/}
    case $name in (*[!0-9A-Za-z-]*) continue ;; esac
    for file in manifest also; do
      [ ! -f "$each/$file" ] || stat -c "%Y $name" "$each/$file"
    done
  done | sort -k1,1rn -k2,2r | awk '!seen[$2]++' | head -n "$most_runs" | while read -r seconds name; do
    echo "run $seconds $name"
    for file in manifest also; do
      record=$top/$name/$file
      [ -e "$record" ] || continue
      if ! sound "$top" "$record"; then
        echo "refused $why"
      elif [ "$file" = manifest ] &&
        { [ "$(wc -c <"$record")" -gt "$most_bytes" ] || [ "$(wc -l <"$record")" -gt "$most_lines" ]; }; then
        echo "refused $record has more than $most_lines lines, or $most_bytes bytes"
      else
        head -c "$most_bytes" "$record" | head -n "$most_lines" | awk -v file="$file" '{ print file " " $0 }'
      fi
    done
  done
fi
echo end
