# As whom a tree is received on this node, and how a folder is made for it. copier.sh stands before it.
# shellcheck shell=sh disable=SC2034,SC2154
# receiver TRAINS PATH: by: whose what is copied to PATH will be. TRAINS is the user whose login it
# is; empty: the SSH user, who may take sudo for this.
receiver() {
  by=$1
  [ -n "$by" ] || by=$(account "${SUDO_UID:-$mine}" 1) || no "uid ${SUDO_UID:-$mine} has no account"
  [ "$mine" = 0 ] || return 0
  # Who may become root copies as whose the folder is (copy_side.sh).
  [ -z "$1" ] || [ "$1" = root ] || return 0
  mine=$(account "$by" 3)
  way "$2"
  mine=0
  [ -z "$theirs" ] || by=$(account "$theirs" 1) ||
    no "$at belongs to uid $theirs, which is no account here: give it to one"
}
# make PATH: root makes folders only where no one else may write, and gives the last one away there.
make() {
  way "$1"
  if [ "$mine" = 0 ] && [ -z "$theirs$open" ] && shared "$at"; then
    output=$(entered "$1" "$(account "$by" 3)" && why= && chown -h -- "$by:" . 2>&1 || { echo "$why"; false; })
  elif [ "$mine" != 0 ] || [ -z "$theirs$open" ]; then
    output=$(mkdir -p -- "$1" 2>&1) && { [ "$mine" != 0 ] || chown -h -- "$by:" "$1"; } && return
    # A server may keep root out of what it exports.
    rmdir -- "$1" 2>/dev/null
    [ "$mine" = 0 ] && as "$by" "umask $(umask); mkdir -p -- $(quoted "$1")" >/dev/null
  elif [ "$by" = root ]; then
    output="users other than root may write in ${open:-$at}"
    return 1
  else
    output=$(as "$by" "umask $(umask); mkdir -p -- $(quoted "$1")" 2>&1)
  fi
}
