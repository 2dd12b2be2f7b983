# Who may write what is on the way to a path: the rules of the probe and of all repairs.
# tests/facts/test_writers.py holds what is built on them to one table of cases.
# shellcheck disable=SC2034
#
# walk PATH SEES LACKS: calls SEES for each folder, link and file on the way to PATH, from / on; with
# links followed, $walk_at is its path, $walk_rest what comes after it, and $walk_mode, $walk_uid and
# $walk_gid are as ls shows them. It calls LACKS where one cannot be examined ($walk_why), and looks again
# if that succeeds; else it ends and fails. $walk_link is a link that it cannot follow.
walk_line='
'
walk() {
  walk_at=/ walk_rest=$1/ walk_links=0 walk_link='' walk_ahead='' walk_new=yes
  while :; do
    if [ -n "$walk_new" ]; then
      walk_new='' walk_ahead=$(walk_look) && walk_ahead=$walk_ahead$walk_line || walk_ahead=
    fi
    if [ -n "$walk_ahead" ]; then
      walk_why=${walk_ahead%%"$walk_line"*} walk_ahead=${walk_ahead#*"$walk_line"}
    else
      # Its messages are no answer: the loader has one about a missing LD_PRELOAD.
      walk_why=$(LC_ALL=C ls -ldn -- "$walk_at" 2>/dev/null) || {
        walk_why=$(LC_ALL=C ls -ldn -- "$walk_at" 2>&1)
        "$3" && continue || return 1
      }
    fi
    IFS=' ' read -r walk_mode walk_to walk_uid walk_gid walk_to <<END
$walk_why
END
    "$2" || return 1
    case $walk_mode in (l*)
      # What ls has printed after a link is about its target.
      walk_ahead='' walk_new=yes walk_links=$((walk_links + 1))
      [ "$walk_links" -le 40 ] && walk_to=$(readlink -- "$walk_at") || { walk_link=$walk_at; return 1; }
      walk_rest=$walk_to/$walk_rest
      case $walk_to in (/*) walk_at=/ ;; (*) walk_at=${walk_at%/*} ;; esac ;;
    esac
    while :; do
      case $walk_rest in (*[!/]*) ;; (*) return 0 ;; esac
      walk_to=${walk_rest%%/*} walk_rest=${walk_rest#*/}
      case $walk_to in
        ('' | .) ;;
        (..) walk_at=${walk_at%/*} walk_ahead='' walk_new=yes ;;
        (*) break ;;
      esac
    done
    walk_at=${walk_at%/}/$walk_to
  done
}
# walk_look: prints the lines of ls about $walk_at and all that is ahead of it, up to `..`; it fails
# where one of them cannot be examined. One ls costs less than one for each folder, and a folder
# precedes those below it.
walk_look() {
  walk_to=$walk_at
  set -- "$walk_at"
  case $walk_rest in (*"$walk_line"*) return 1 ;; esac
  while :; do
    case $walk_rest in (*[!/]*) ;; (*) break ;; esac
    walk_next=${walk_rest%%/*} walk_rest=${walk_rest#*/}
    case $walk_next in ('' | .) continue ;; (..) break ;; esac
    walk_to=${walk_to%/}/$walk_next
    set -- "$@" "$walk_to"
  done
  LC_ALL=C ls -ldn -- "$@" 2>/dev/null
}
# writers MODE: sets $writers to who may write there besides the owner: `all`, `list` (an access list),
# `group`, `sticky` (all or a group, and they cannot rename what is another's), or nothing. ls shows an
# access list as a plus, and as write permission of the group.
writers() {
  case $1 in
    (l*) writers='' ;;
    (d???????w[tT]* | d????w???[tT]*) writers=sticky ;;
    (????????w*) writers=all ;;
    (?????w????+*) writers=list ;;
    (?????w*) writers=group ;;
    (*) writers='' ;;
  esac
}
# private_group GID [ACCOUNT PRIMARY_GID]: whether no account but root and ACCOUNT is in a group. The
# group has the account's name and primary gid, or it exists on every system (gid below 100, such as
# staff, which owns /usr/local on Debian), and it has no other member. Of other groups, such as `users`
# (100), a directory server need not list all members. The group of root also has system accounts
# (sync, halt).
private_group() {
  entry=$(getent group "$1" 2>/dev/null || awk -F: -v gid="$1" '$3 == gid' /etc/group)
  case ${entry##*:} in ('' | root | "${2-}") ;; (*) return 1 ;; esac
  [ "${entry%%:*}:$1" = "${2-}:${3-}" ] || { [ -n "$entry" ] && [ "$1" -lt 100 ]; } || return 1
  ! { getent passwd 2>/dev/null || cat /etc/passwd; } |
    awk -F: -v gid="$1" -v name="${2-}" \
      '$4 == gid && $3 != 0 && $1 != name && (gid != 0 || $3 >= 1000)' | grep -q .
}
