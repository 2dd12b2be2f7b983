# Remove unused segments; each is checked again. stdin has "INODE TIME NAME" lines; a time before 1970
# has a minus.
# Variables: place, look (facts/shm/segments.py: what lies there, and who has it open); allow.
# Needs: in_use
# Disturbs: segments
# shellcheck shell=sh disable=SC2154
wanted=$(cat)
eval "$look"
found=$(use) || { echo "gpu-node: $found" >&2; exit 1; }
printf '%s\n' "$found" | grep -qx seen || {
  echo "gpu-node: cannot determine which processes use $place; nothing was removed" >&2
  exit 1
}
gone=$(printf '%s\n' "$wanted" "$found" | awk '
  NF == 3 && /^[0-9]+ -?[0-9]+ / { wanted[$3] = $1 " " $2 }
  $1 == "segment" && wanted[$7] == $2 " " $3 { print $7 }')
cd "$place" || exit 1
printf '%s\n' "$gone" | xargs rm -f -- || exit 1
{ printf '%s\n' "$wanted"; segments; } | awk '
  NF == 3 && /^[0-9]+ -?[0-9]+ / { wanted[$3] = $1 " " $2 }
  $1 == "S" { sub(/.*\//, "", $7); if (wanted[$7] == $2 " " $3) print "kept", $7 }'
