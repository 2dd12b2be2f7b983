# For a path in $@ that does not exist, prints the file system in which it would be created.
for path; do
  place=$path
  while [ ! -e "$place" ] && [ "$place" != / ]; do
    place=${place%/*}
    place=${place:-/}
  done
  printf 'bytes\t%s\t%s\n' "$path" "$(df -Pk "$place" 2>/dev/null | sed -n '$p')"
  printf 'inodes\t%s\t%s\n' "$path" "$(df -Pi "$place" 2>/dev/null | sed -n '$p')"
done
awk '$4 ~ /^ro(,|$)/ { print "closed\t" $2 }' /proc/mounts
