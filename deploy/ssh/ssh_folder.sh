# Give a user's ~/.ssh to the user, and close it. The user changes the files in it: ssh_modes.sh.
# The folder is entered and then changed from within, not by a path that the user could redirect.
# Its home and uid are the node's own: what the user's process reported of them may be another
# user's. Variables: user.
# shellcheck shell=sh disable=SC2154
fail() { echo "gpu-node: $1; nothing was changed" >&2; exit 1; }
entry=$({ getent passwd "$user" 2>/dev/null || awk -F: -v name="$user" '$1 == name' /etc/passwd; } | sort -u)
[ "$(printf '%s\n' "$entry" | grep -c "^[^:]*:[^:]*:[0-9]*:[0-9]*:[^:]*:/")" = 1 ] ||
  fail "$user has no account here, or several"
IFS=: read -r _ _ uid _ _ home _ <<END
$entry
END
# A file server may deny root access to a home: then the user must do it.
cd -P -- "$home" 2>/dev/null || exit 0
owner=$(stat -c %u .) || exit 0
[ "$owner" = "$uid" ] || fail "$home belongs to uid $owner: give it to $user manually"
# By pwd(1): the shell's own pwd may use the path that it remembers.
at=$(env pwd -P)
[ -d .ssh ] && [ ! -L .ssh ] && cd -P ./.ssh 2>/dev/null || exit 0
[ "$(env pwd -P)" = "${at%/}/.ssh" ] || fail "$home/.ssh changed while we worked"
case $(stat -c %u .) in
  ("$uid" | 0) ;;
  (*) chown "$user" . || fail "$home/.ssh cannot be given to $user" ;;
esac
chmod go-w . || fail "$home/.ssh cannot be closed to others"
