# Make room for the workspace; what a copy is to delete, a running job may have open.
# Variables: path; owner, a user or empty; allow for in_use.sh, which stands before this: yes where
# nothing is deleted.
# shellcheck shell=sh disable=SC2154
# It belongs to who copies: the SSH user, whom it takes sudo for to make it below a directory of
# root's, or the training user, who may go through what is made on the way to it.
[ -d "$path" ] || {
  [ -z "$owner" ] || umask 022
  mkdir -p -- "$path" || exit 1
  if [ -n "$owner" ]; then
    chown -- "$owner:" "$path"
  elif [ -n "${SUDO_UID:-}" ]; then
    chown -- "$SUDO_UID:${SUDO_GID:-}" "$path"
  fi
}
