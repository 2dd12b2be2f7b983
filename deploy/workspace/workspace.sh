# Make room for the workspace, and for what a copy deletes or overwrites. It runs again right before
# anything is deleted.
# Variables: path; owner, a user or empty; backup, a folder or empty; allow for in_use.sh, which
# stands before this: yes where nothing is deleted.
# shellcheck shell=sh disable=SC2154,SC2015
# It belongs to who copies: the SSH user, whom it takes sudo for to make it below a directory of
# root's, or the training user, who may go through what is made on the way to it.
fail() { echo "gpu-node: $1" >&2; exit 1; }
give() {
  if [ -n "$owner" ]; then
    chown -h -- "$owner:" "$1"
  elif [ -n "${SUDO_UID:-}" ]; then
    chown -h -- "$SUDO_UID:${SUDO_GID:-}" "$1"
  fi
}
# A server may keep root out of what it exports: there the owner makes a folder.
by_owner() {
  [ -n "$owner" ] && made=$1 mask=$(umask) su -s /bin/sh "$owner" -c 'umask "$mask"; mkdir -p -- "$made"'
}
[ -d "$path" ] || {
  [ -z "$owner" ] || umask 022
  said=$(mkdir -p -- "$path" 2>&1) && give "$path" || { rmdir -- "$path" 2>/dev/null; by_owner "$path"; } ||
    fail "$path cannot be made: $said"
}
[ -n "$backup" ] || exit 0
folder=${backup%/*}
[ ! -L "$folder" ] || fail "$folder is a link; the backup was to be a folder"
umask 077
{ mkdir -p -- "$backup" && give "$folder" && give "$backup"; } 2>/dev/null ||
  { rmdir -- "$backup" "$folder" 2>/dev/null; by_owner "$backup" 2>/dev/null; } ||
  fail "no backup, so nothing was deleted or overwritten: make $folder for the user who copies, or \
set workspace: {backup: {keep: 0}}"
# Elsewhere rsync would copy each file, and another disk may be full.
[ "$(stat -c %d "$path")" = "$(stat -c %d "$folder")" ] || {
  rmdir -- "$backup" "$folder" 2>/dev/null
  fail "$folder is on another file system than $path; nothing was deleted or overwritten"
}
