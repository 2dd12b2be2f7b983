# Paths that only root can change. "Root" is the account that runs this: without root, that user too.
# Unlike owner.sh (who owns this?) and copier.sh (which user copies a tree?) it makes missing folders, and
# refuses where they find an owner.
# Needs: writers
# shellcheck shell=sh disable=SC2034,SC2154

# trusted PATH: no other user can decide which file or folder PATH is. Each folder on the way, and
# PATH if it is one, belongs to root, and no other user may write there; of sticky folders, such as
# /tmp, what lies in them counts. Missing folders on the way are made; PATH need not exist. It sets
# `real`, the path without links, or `why`.
trusted() {
  real=$(trusted_path "$1") || { why=$real; return 1; }
}

# Prints the path without links, or the reason. A subshell runs it: its variables are its own.
trusted_path() {
  no() { echo "$1"; exit 1; }
  case $1 in (/*) ;; (*) no "$1 is not an absolute path" ;; esac
  is_shared=''
  walk "$1" trusted_sees trusted_lacks || [ -z "$walk_link" ] || no "$walk_link is a link that cannot be followed"
  [ -z "$is_shared" ] || no "users other than root may write in ${walk_at%/*}"
  [ "$walk_at" = / ] || printf '%s\n' "$walk_at"
}
trusted_sees() {
  case $walk_mode:$walk_rest in
    ([ld]*) ;;
    (*:*[!/]*) no "$walk_at is not a folder" ;;
    (*) return 0 ;;
  esac
  [ "$walk_uid" = 0 ] || [ "$walk_uid" = "$(id -u)" ] ||
    no "$walk_at belongs to uid $walk_uid, who can put another in its place"
  case $walk_mode in (l*)
    [ -z "$is_shared" ] || no "$walk_at is a link that cannot be followed"
    return 0 ;;
  esac
  writers "$walk_mode"
  is_shared=
  case $writers in
    (sticky) is_shared=yes ;;
    (all | list) false ;;
    (group) private_group "$walk_gid" ;;
  esac || no "users other than root may write in $walk_at"
}
# Without a folder there is nothing yet: its maker is who runs this.
trusted_lacks() {
  case $walk_rest in (*[!/]*) ;; (*) return 1 ;; esac
  (umask 022 && mkdir "$walk_at") 2>/dev/null || no "the folder $walk_at cannot be made"
}

# closed TOP [BELOW]: TOP, and each folder below it down to BELOW, is a real folder of root's into
# which no other user can look; missing ones are made, root's own are closed. Else it sets `why`.
closed() {
  why=$(close_folders "$1" "${2:-$1}")
}

close_folders() {
  no() { echo "$1"; exit 1; }
  at=${1%/} todo=${2#"$1"}
  real=$(trusted_path "$at/.") || no "$real"
  while :; do
    [ ! -L "$at" ] || no "$at is a link, and must be a folder: remove it"
    [ -d "$at" ] || (umask 077 && mkdir "$at") 2>/dev/null || no "the folder $at cannot be made"
    [ -O "$at" ] || no "$at belongs to another user: remove it, or give it to root"
    chmod 700 "$at" 2>/dev/null || no "$at cannot be closed to other users"
    while :; do case $todo in (/*) todo=${todo#/} ;; (*) break ;; esac; done
    [ -n "$todo" ] || return 0
    part=${todo%%/*}
    case $todo in (*/*) todo=${todo#*/} ;; (*) todo='' ;; esac
    case $part in (.) ;; (..) no "$2 leads out of $1" ;; (*) at=$at/$part ;; esac
  done
}
