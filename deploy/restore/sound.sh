# Whether a record of a run is as root has written it: no other user can have changed it.
# Needs: writers closed
# shellcheck shell=sh disable=SC2034,SC2154

# sound TOP PATH: PATH is a regular file below the folder TOP; it and each folder from TOP down to it belong
# to root, are no links, and only root may write there. Root is the account that runs this. Of a
# backup, which has the mode of its file, the folders decide. Unlike `closed` it changes nothing. Else
# it sets `why`.
sound() {
  why=$(sound_path "$1" "$2")
}
sound_path() {
  no() { echo "$1"; exit 1; }
  at=${1%/} todo=${2#"$1"/}
  [ -d "$at" ] || no "$at is not a folder"
  real=$(trusted_path "$at/.") || no "$real"
  while :; do
    [ ! -L "$at" ] || no "$at is a link"
    [ -e "$at" ] || no "$at is missing"
    [ -O "$at" ] || no "$at belongs to another user"
    if [ -z "$todo" ]; then
      [ -f "$at" ] || no "$at is not a regular file"
      case $at in (*/manifest | */also) ;; (*) return 0 ;; esac
    else
      [ -d "$at" ] || no "$at is not a folder"
    fi
    writers "$(ls -ldn "$at")"
    [ -z "$writers" ] || no "users other than root may write in $at"
    [ -n "$todo" ] || return 0
    part=${todo%%/*}
    case $todo in (*/*) todo=${todo#*/} ;; (*) todo='' ;; esac
    case $part in ('' | . | ..) no "$2 leads out of $1" ;; esac
    at=$at/$part
  done
}
