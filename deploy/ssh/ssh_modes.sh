# Close a user's SSH files to others as far as sshd and ssh ask for it, and give them to the user.
# Variables: user, uid, home.
# shellcheck shell=sh disable=SC2154,SC2012
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: $1" >&2; exit 1; }
top=$(readlink -f "$home") || fail "$home cannot be resolved"
for name in '' /.ssh /.ssh/authorized_keys /.ssh/id_ed25519; do
  path=$home$name
  [ -e "$path" ] || continue
  owner=$(ls -ldnL "$path" | awk '{ print $3 }')
  closed=go-w
  [ "$name" != /.ssh/id_ed25519 ] || closed=go=
  if [ "$owner" != "$uid" ] && { [ "$owner" != 0 ] || [ "$closed" = go= ]; }; then
    [ -n "$name" ] || fail "$path belongs to uid $owner: give it to $user by hand"
    # A link could make somebody else's file the user's.
    case $(readlink -f "$path") in
      "$top$name") chown "$user" "$path" || fail "$path cannot be given to $user" ;;
      *) fail "$path is a link: give what it leads to to $user by hand" ;;
    esac
  fi
  chmod "$closed" "$path" || fail "$path cannot be closed to others"
done
