# Paths that only root can change. "Root" is the account that runs this: without root, that user too.
# It creates folders on the way, which facts/probe/owner.py (who owns this?) and copier.sh (which
# user copies a tree?) never do, and it refuses where they return an owner; private_group.sh decides
# for all whose a group is.
# shellcheck shell=sh disable=SC2034

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
  case $1 in /*) ;; *) no "$1 is not an absolute path" ;; esac
  real='' todo=$1 links=0 sticky=''
  while :; do
    while :; do case $todo in /*) todo=${todo#/} ;; *) break ;; esac; done
    found=$(LC_ALL=C ls -ldn "${real:-/}" 2>/dev/null | awk 'NR == 1 { print $1, $3, $4 }')
    if [ -z "$found" ]; then
      [ -n "$todo" ] || break
      (umask 022 && mkdir "$real") 2>/dev/null || no "the folder $real cannot be made"
      continue
    fi
    kind=${found%% *} group=${found##* }
    owner=${found#* } owner=${owner%% *}
    case $kind in
      l* | d*)
        [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] ||
          no "${real:-/} belongs to uid $owner, who can put another in its place"
        ;;
      *)
        [ -z "$todo" ] || no "$real is not a folder"
        break
        ;;
    esac
    case $kind in
      l*)
        links=$((links + 1))
        [ "$links" -le 40 ] && [ -z "$sticky" ] && target=$(readlink "$real") ||
          no "$real is a link that cannot be followed"
        case $target in /*) real='' ;; *) real=${real%/*} ;; esac
        todo=$target/$todo
        ;;
      ????????w[tT]* | ?????w???[tT]*) sticky=yes ;;
      ????????w* | ?????w????+*) sticky=no ;;
      ?????w*) private_group "$group" && sticky='' || sticky=no ;;
      *) sticky='' ;;
    esac
    [ "$sticky" != no ] || no "users other than root may write in ${real:-/}"
    [ -n "$todo" ] || break
    part=${todo%%/*}
    case $todo in */*) todo=${todo#*/} ;; *) todo='' ;; esac
    case $part in . | '') ;; ..) real=${real%/*} ;; *) real=$real/$part ;; esac
  done
  [ -z "$sticky" ] || no "users other than root may write in ${real%/*}"
  echo "$real"
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
    while :; do case $todo in /*) todo=${todo#/} ;; *) break ;; esac; done
    [ -n "$todo" ] || return 0
    part=${todo%%/*}
    case $todo in */*) todo=${todo#*/} ;; *) todo='' ;; esac
    case $part in .) ;; ..) no "$2 leads out of $1" ;; *) at=$at/$part ;; esac
  done
}
