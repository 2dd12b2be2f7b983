# Keep the backups of the newest runs, and no empty one.
# Variables: folder, which holds them; backup, this run's; keep, how many.
# shellcheck shell=sh disable=SC2154
[ -d "$folder" ] && [ ! -L "$folder" ] || exit 0
rmdir -- "$backup" 2>/dev/null
cd -- "$folder" || exit 1
# A run's name is its time in UTC and six letters: nothing else is removed.
for each in *; do
  [ -d "$each" ] && [ ! -L "$each" ] && echo "$each"
done | grep -x '[0-9]\{8\}T[0-9]\{6\}Z-[0-9a-f]\{6\}' | sort -r | sed "1,${keep}d" |
while IFS= read -r old; do
  rm -rf -- "./$old" || echo "gpu-node: $folder/$old cannot be removed" >&2
done
[ ! -d "$backup" ] || echo "kept $backup"
cd / && rmdir -- "$folder" 2>/dev/null
exit 0
