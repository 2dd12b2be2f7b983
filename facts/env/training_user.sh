# Sets $user (empty: the SSH user), $home and $entry, the line of passwd. Needs $gn_as_user.
eval "$gn_as_user"
entry=$(getent passwd "$user" 2>/dev/null || grep -F "$user:" /etc/passwd |
  name=$user awk -F: '$1 == ENVIRON["name"]' | grep .) || { echo "no user $user"; exit 1; }
home=${entry%:*} home=${home##*:}
# at_home SCRIPT: runs sh as the owner of the home: root may have no access to a mounted home. An
# ordinary user reads it without sudo.
at_home() {
  if [ "$user" != "$me" ] && [ "${gn_uid:-$(id -u)}" = 0 ]; then as_user "$1"; else sh -c "$1"; fi
}
export home
