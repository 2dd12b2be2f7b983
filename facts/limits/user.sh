# Prints one line for each group: a name from a directory service may contain blanks.
name=${gn_me:-$(id -un)} && uid=${gn_uid:-$(id -u)} && gids=$(id -G) || exit 1
echo "$uid $name"
for gid in $gids; do
  group=$(getent group "$gid" 2>/dev/null || grep "^[^:]*:[^:]*:$gid:" /etc/group) || group=
  echo "$gid ${group%%:*}"
done
