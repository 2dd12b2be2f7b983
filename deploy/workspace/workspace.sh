# Create the folders for the workspace and for what a copy deletes or overwrites. It runs again
# right before anything is deleted.
# Variables: path; owner, a user or empty; backup, a folder or empty; allow (yes
# where nothing is deleted); backups, the folder of the run's records.
# Needs: writers closed place in_use copier receiver noted
# Disturbs: workspace
# shellcheck shell=sh disable=SC2154,SC2015
# It belongs to the user who copies: the SSH user, who needs sudo to create it below a directory of
# root, or the training user, who may enter the folders that are created on the way to it.
receiver "$owner" "$path"
[ -d "$path" ] || {
  note copy "$by" "$path"
  [ -z "$owner" ] || umask 022
  make "$path" || no "cannot be made: $output"
}
# A user who created it before, or at this moment, could change what is trained there.
found=$(stat -L -c %u -- "$path") || no "cannot determine whose it is; nothing was copied"
wants=${owner:-$(account "${SUDO_UID:-$(id -u)}" 1)}
way "${path%/*}/"
[ "$found" = 0 ] || [ "$found" = "$(id -u)" ] || [ "$found" = "$(account "$wants" 3)" ] ||
  { [ -z "$owner" ] && ! shared "$at"; } ||
  no "belongs to $(account "$found" 1 || echo "uid $found"), and is to be $wants's; nothing was copied: \
look at what is in it, then remove it or give it to $wants (chown -R -h $wants: $path)"
[ -n "$backup" ] || exit 0
note workspace "$by" "$path" "$backup"
folder=${backup%/*}
[ ! -L "$folder" ] || no "$folder is a link; the backup was to be a folder"
umask 077
keep() {
  [ -d "$folder" ] || make "$folder" || return 1
  [ "$mine$by" != 0root ] || {
    way "$folder"
    output="users other than root may write in ${open:-$at}"
    [ -z "$theirs$open" ] || return 1
  }
  output="it belongs to $(stat -c %U -- "$folder"), and $by copies"
  [ "$(stat -c %U -- "$folder")" = "$by" ] || return 1
  output=$(as "$by" "umask 077; mkdir -p -- $(quoted "$backup")" 2>&1)
}
keep || no "no backup, so nothing was deleted or overwritten ($output): make $folder for $by, who \
copies, or set workspace: {backup: {keep: 0}}"
# In another place rsync would copy each file, and another disk may be full.
[ "$(stat -c %d "$path")" = "$(stat -c %d "$folder")" ] || {
  as "$by" "rmdir -- $(quoted "$backup") $(quoted "$folder")" >/dev/null
  no "$folder is on another file system than $path; nothing was deleted or overwritten"
}
