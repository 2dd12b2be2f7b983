# Make room for the workspace; what a copy is to delete, a running job may have open.
# Variables: path; allow for in_use.sh, which stands before this: yes where nothing is deleted.
# shellcheck shell=sh disable=SC2154
# It belongs to the SSH user, who copies; below a directory of root's it takes sudo to make it.
[ -d "$path" ] || {
  mkdir -p -- "$path" || exit 1
  [ -z "${SUDO_UID:-}" ] || chown -- "$SUDO_UID:${SUDO_GID:-}" "$path"
}
