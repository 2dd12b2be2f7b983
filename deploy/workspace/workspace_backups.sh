# Keep the backups of the newest runs, but no empty one. It runs as their owner, who could redirect
# root.
# Variables: folder, which holds them; backup, this run's; keep, how many.
# Needs: writers copier
# shellcheck shell=sh disable=SC2034,SC2154
path=$folder
[ -d "$folder" ] && [ ! -L "$folder" ] || exit 0
above=${folder%/*}
way "${above:-/}"
by=
[ "$mine" != 0 ] || by=$(stat -c %U -- "$folder")
if [ -z "$by" ] || [ "$by" = root ]; then
  by=$(id -un)
  [ "$mine" != 0 ] || [ -z "$theirs$open" ] ||
    no "is root's, and others may write in ${open:-$at}; nothing was removed there: look at it manually"
fi
# shellcheck disable=SC2016 # it is expanded where it runs
printed=$(as "$by" "folder=$(quoted "$folder") backup=$(quoted "$backup") keep=$(quoted "$keep")"'
rmdir -- "$backup" 2>/dev/null
cd -- "$folder" || exit 1
# The name of a run is its time in UTC and six letters: nothing else is removed.
for each in *; do
  [ -d "$each" ] && [ ! -L "$each" ] && echo "$each"
done | grep -x "[0-9]\{8\}T[0-9]\{6\}Z-[0-9a-f]\{6\}" | sort -r | sed "1,${keep}d" |
while IFS= read -r old; do
  rm -rf -- "./$old" || echo "gpu-node: $folder/$old cannot be removed" >&2
done
[ ! -d "$backup" ] || echo "kept $backup"
cd / && rmdir -- "$folder" 2>/dev/null
exit 0' 1800)
code=$?
printf '%s\n' "$printed" | grep -v '^gpu-node:' | grep .
printf '%s\n' "$printed" | grep '^gpu-node:' >&2
[ "$code" = 0 ] || no "old backups were not removed: $printed"
[ -n "$theirs$open" ] || rmdir -- "$folder" 2>/dev/null
exit 0
