# Replace one file in a user's home as that user: root would follow a link that appears there
# meanwhile. Only the backup belongs to root, and no value from the user decides its place.
# Variables: file, before (sha256 or "absent"), after (sha256), again, backups, those of
# as_user_within.sh, run (replace.sh with its variables).
# stdin: what replace.sh reads.
# Needs: private_group closed as_user_within place lock
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
umask 022
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }
sum() { sha256sum <"$1" | cut -d' ' -f1; }

# Root may have no access to a mounted home. The user reads the file, whatever it is.
keep() {
  at=$(quoted "$file")
  # Root counts the bytes: a user's process could write without end.
  (umask 077; as_user_within 120 "[ -f $at ] && cat $at" 'head -c 16777217' </dev/null >"$saved") && durable "$saved" || { rm -f "$saved"; fail "cannot be backed up; nothing was changed"; }
  found=$(sum "$saved")
  [ "$found" != "$before" ] || return 0
  rm -f "$saved"
  [ "$found" != "$after" ] || { echo "gpu-node: $file: another run has written the same"; exit 0; }
  [ "$again" != yes ] || { echo "gpu-node: $file: changed meanwhile; reading it again"; exit 75; }
  fail "cannot be read, or changed while we worked; left as it is, run again"
}
if [ "$before" != absent ]; then
  saved=$backups$file
  closed "${backups%/*}" "${saved%/*}" ||
    fail "no backup can be kept in $backups: $why; nothing was changed"
  [ -e "$saved" ] || keep
fi
as_user_within 300 "$run"
