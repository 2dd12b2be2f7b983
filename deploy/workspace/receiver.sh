# Which user receives a tree on this node, and how a folder is created for it. copier.sh precedes
# it.
# shellcheck shell=sh disable=SC2034,SC2154
# receiver TRAINS PATH: by: whose what is copied to PATH will be. TRAINS is the user whose login it
# is; empty: the SSH user, who may take sudo for this.
receiver() {
  by=$1
  [ -n "$by" ] || by=$(account "${SUDO_UID:-$mine}" 1) || no "uid ${SUDO_UID:-$mine} has no account"
  [ "$mine" = 0 ] || return 0
  # A user who may become root copies as the folder's owner (copy_side.sh).
  [ -z "$1" ] || [ "$1" = root ] || return 0
  mine=$(account "$by" 3)
  way "$2"
  mine=0
  [ -z "$theirs" ] || by=$(account "$theirs" 1) ||
    no "$at belongs to uid $theirs, which is no account here: give it to one"
}
# make PATH: root creates folders only where no other user may write, and gives only the last one to
# its owner.
make() {
  way "$1"
  if [ "$mine" = 0 ] && [ -z "$theirs$open" ] && shared "$at"; then
    output=$(entered "$1" "$(account "$by" 3)" && why= && chown -h -- "$by:" . 2>&1 || { echo "$why"; false; })
  elif [ "$mine" != 0 ] || [ -z "$theirs$open" ]; then
    output=$(mkdir -p -- "$1" 2>&1) && { [ "$mine" != 0 ] || chown -h -- "$by:" "$1"; } && return
    # A file server may deny root access to its exports.
    rmdir -- "$1" 2>/dev/null
    [ "$mine" = 0 ] && as "$by" "umask $(umask); mkdir -p -- $(quoted "$1")" >/dev/null
  elif [ "$by" = root ]; then
    output="users other than root may write in ${open:-$at}"
    return 1
  else
    output=$(as "$by" "umask $(umask); mkdir -p -- $(quoted "$1")" 2>&1)
  fi
}
