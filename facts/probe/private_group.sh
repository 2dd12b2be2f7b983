# private_group GID [ACCOUNT PRIMARY_GID]: whether no account but root and ACCOUNT is in a group. It
# is the rule for a group that may write, of the probe and of all repairs. The group has the
# account's name and primary gid, or it exists on every system (gid below 100, such as staff, which
# owns /usr/local on Debian), and it has no other member. Of other groups, such as `users` (100), a
# directory server need not list all members. The group of root also has system accounts (sync,
# halt).
private_group() {
  entry=$(getent group "$1" 2>/dev/null || awk -F: -v gid="$1" '$3 == gid' /etc/group)
  case ${entry##*:} in '' | root | "${2-}") ;; *) return 1 ;; esac
  [ "${entry%%:*}:$1" = "${2-}:${3-}" ] || { [ -n "$entry" ] && [ "$1" -lt 100 ]; } || return 1
  ! { getent passwd 2>/dev/null || cat /etc/passwd; } |
    awk -F: -v gid="$1" -v name="${2-}" \
      '$4 == gid && $3 != 0 && $1 != name && (gid != 0 || $3 >= 1000)' | grep -q .
}
