# Close a user's SSH files to others as far as sshd and ssh require it, and give them to the user.
# Runs as their owner. Variables: user, uid, home.
# Needs: place
# shellcheck shell=sh disable=SC2154,SC2012
fail() { echo "gpu-node: $1" >&2; exit 1; }
top=$(readlink -f "$home") || fail "$home cannot be resolved"
# A copy that the user makes belongs to the user. A run never gives the user a file that the user
# cannot read: it could be replaced by any file.
take() {
  [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ] && [ "$(stat -c %s "$1")" -le 16777216 ] || return 1
  (umask 077 && rm -f "$1.gpu-node" && set -C && cat "$1" >"$1.gpu-node") && place "$1.gpu-node" "$1" ||
    { rm -f "$1.gpu-node"; return 1; }
}
for name in '' /.ssh /.ssh/authorized_keys /.ssh/id_ed25519; do
  path=$home$name
  [ -e "$path" ] || continue
  owner=$(ls -ldnL "$path" | awk '{ print $3 }')
  closed=go-w
  [ "$name" != /.ssh/id_ed25519 ] || closed=go=
  if [ "$owner" != "$uid" ] && { [ "$owner" != 0 ] || [ "$closed" = go= ]; }; then
    [ -n "$name" ] || fail "$path belongs to uid $owner: give it to $user manually"
    # A link could give another user's file to the user.
    case $(readlink -f "$path") in
      ("$top$name") take "$path" || fail "$path belongs to uid $owner, and $user cannot copy it: give it to $user manually (chown -h $user $path)" ;;
      (*) fail "$path is a link: give what it leads to to $user manually" ;;
    esac
  fi
  case $(ls -ldnL "$path") in
    (?????w* | ????????w*) ;;
    (????------*) continue ;;
    (*) [ "$closed" = go= ] || continue ;;
  esac
  chmod "$closed" "$path" 2>/dev/null || { take "$path" && chmod "$closed" "$path"; } ||
    fail "$path cannot be closed to others"
done
