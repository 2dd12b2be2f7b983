# Give a user's ~/.ssh to the user, and close it. Files in it are the user's to see to: ssh_modes.sh.
# The folder is entered and then changed as what it is, not by a path that the user could lead away.
# Variables: user, uid, home.
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: $1; nothing was changed" >&2; exit 1; }
# A server may keep root out of a home: there the user has to be enough.
cd -P -- "$home" 2>/dev/null || exit 0
owner=$(stat -c %u .) || exit 0
[ "$owner" = "$uid" ] || fail "$home belongs to uid $owner: give it to $user manually"
# Of pwd(1): a shell's own may go by the path that it remembers.
at=$(env pwd -P)
[ -d .ssh ] && [ ! -L .ssh ] && cd -P ./.ssh 2>/dev/null || exit 0
[ "$(env pwd -P)" = "${at%/}/.ssh" ] || fail "$home/.ssh changed while we worked"
case $(stat -c %u .) in
  "$uid" | 0) ;;
  *) chown "$user" . || fail "$home/.ssh cannot be given to $user" ;;
esac
chmod go-w . || fail "$home/.ssh cannot be closed to others"
