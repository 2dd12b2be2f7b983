# Replace one file in a user's home as that user: root would follow a link that appears there just
# then. The backup alone is root's.
# Variables: file, before (sha256 or "absent"), backups, user, as_user (sh that defines as_user), run
# (replace.sh with its variables).
# stdin: what replace.sh reads.
# shellcheck shell=sh disable=SC2154
set -u
umask 022
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }
eval "$as_user"
quoted() { printf '%s\n' "$1" | sed -e "s/'/'\\\\''/g" -e "1s/^/'/" -e "\$s/\$/'/"; }
# Root may not see into a home that is mounted from elsewhere.
keep() {
  at=$(quoted "$real")
  said=$(as_user "stat -c '%a %u:%g' $at" </dev/null) || return 1
  (umask 077; as_user "cat $at" </dev/null >"$saved") && chmod "${said%% *}" "$saved" &&
    chown "${said#* }" "$saved"
}
if [ "$before" != absent ]; then
  real=$(as_user "readlink -f $(quoted "$file")" </dev/null) && [ -n "$real" ] ||
    fail "cannot be resolved; nothing was changed"
  saved=$backups$real
  mkdir -p "${saved%/*}" || fail "no backup can be kept in $backups; nothing was changed"
  [ -e "$saved" ] || keep || { rm -f "$saved"; fail "cannot be backed up; nothing was changed"; }
fi
as_user "$run"
