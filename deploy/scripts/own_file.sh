# Make a file that is not there yet, empty, and give it to a user.
# Variables: file, user.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }

set -C # whatever appears there meanwhile is not ours to empty
( : >"$file" ) 2>/dev/null || fail "cannot be made, or appeared while we worked; nothing was changed"
[ "$(id -un)" = "$user" ] || chown -h "$user:" "$file" || fail "cannot be given to $user"
