# Make room for a Python environment that is copied from another node: in a folder beside its place.
# Variables: path, partial (the folder beside it), machine (what its programs run on; may be empty).
# shellcheck shell=sh disable=SC2154,SC2015
set -u
LC_ALL=C; export LC_ALL
umask 022
fail() { echo "gpu-node: $path: $1; nothing was changed" >&2; exit 1; }
[ ! -e "$path" ] && [ ! -L "$path" ] || fail "it has come meanwhile"
here=$(uname -m)
[ -z "$machine" ] || [ "$machine" = "$here" ] ||
  fail "the environment is for $machine, and this node is $here: make it here by hand"
mkdir -p -- "$partial" || exit 1
# It belongs to the SSH user, who copies; below a directory of root's it takes sudo to make it.
[ -z "${SUDO_UID:-}" ] || chown -- "$SUDO_UID:${SUDO_GID:-}" "$partial"
