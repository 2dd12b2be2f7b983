# Replace one file in a user's home as that user: root would follow a link that appears there just
# then. The backup alone is root's.
# Variables: file, before (sha256 or "absent"), backups, user, as_user (sh that defines as_user), run
# (replace.sh with its variables).
# stdin: what replace.sh reads.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }
if [ "$before" != absent ]; then
  real=$(readlink -f "$file") || fail "cannot be resolved; nothing was changed"
  saved=$backups$real
  mkdir -p "${saved%/*}" || fail "no backup can be kept in $backups; nothing was changed"
  [ -e "$saved" ] || cp -p "$real" "$saved" ||
    { rm -f "$saved"; fail "cannot be backed up; nothing was changed"; }
fi
eval "$as_user"
as_user "$run"
