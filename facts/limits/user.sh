# Prints the user, and one line for each group: a name from a directory service may contain blanks.
# $trainer: another user than the one who runs this; empty where there is none.
set -- ${trainer:+"$trainer"}
if [ "$#" -gt 0 ]; then
  name=$(id -un "$@") && uid=$(id -u "$@") || exit 1
else
  name=${gn_me:-$(id -un)} && uid=${gn_uid:-$(id -u)} || exit 1
fi
gids=$(id -G "$@") || exit 1
echo "$uid $name"
for gid in $gids; do
  group=$(getent group "$gid" 2>/dev/null || grep "^[^:]*:[^:]*:$gid:" /etc/group) || group=
  echo "$gid ${group%%:*}"
done
