# Which user copies a tree: root would follow a link that a user puts in the place of a folder on
# its path. It precedes scripts that make, copy or remove a tree, and follows writers.sh.
# Variables: path, which messages name; as_user (sh that defines as_user).
# Given: as_user
# shellcheck shell=sh disable=SC2034,SC2154
eval "$as_user"
mine=$(id -u) || exit 1
no() { printf '%s\n' "gpu-node: $path: $1" >&2; exit 1; }
account() {
  { getent passwd "$1" 2>/dev/null || awk -F: -v key="$1" '$1 == key || $3 == key' /etc/passwd; } |
    cut -d: -f"$2" | head -n 1 | grep .
}
# Whether more than its owner and root may write in a folder: MODE as ls writes it, uid, gid.
others() {
  writers "$1"
  case $writers in
    (all | list) ;;
    (group | sticky) ! { name=$(account "$2" 1) && private_group "$3" "$name" "$(account "$2" 4)"; } ;;
    (*) return 1 ;;
  esac
}
# way PATH: at: the existing part, without links; theirs: the uid of its last folder that belongs
# neither to root nor to us; open: the first folder of ours or root's in which others may write;
# shut: the folder that only root can enter, if it is in one; lacks: the missing part of the path.
way() {
  theirs='' open='' shut='' lacks=''
  walk "$1" way_sees way_lacks || {
    [ -z "$walk_link" ] || no "has too many links on its way"
    lacks=${walk_at##*/}/$walk_rest walk_at=${walk_at%/*}
  }
  at=${walk_at%/}
  case $at/ in ("$shut"/*) ;; (*) shut='' ;; esac
}
way_sees() {
  case $walk_at in ("${shut:-/}"/*) return 0 ;; esac
  shut=''
  [ "$walk_uid" = 0 ] || [ "$walk_uid" = "$mine" ] || theirs=$walk_uid
  [ "$walk_mode:$walk_uid" != "drwx------${walk_mode#drwx------}:0" ] || shut=${walk_at%/}
  [ -n "$open" ] || ! others "$walk_mode" "$walk_uid" "$walk_gid" || open=$walk_at
}
way_lacks() { return 1; }
# Whether others may create files in a folder, but only rename their own.
shared() {
  case $(ls -ldn -- "$1/" 2>/dev/null) in (????????w[tT]* | ?????w???[tT]*) ;; (*) return 1 ;; esac
}
# entered PATH [UID]: changes to PATH, created if missing: a folder of root, ours or UID's; else it
# sets why. In a shared folder others may replace it by their own folder or a link at any moment: so
# each step is checked from within, and never by its path. It uses pwd(1), because the shell's own
# pwd may use the path that it remembers.
entered() {
  way "${1%/*}/"
  left=$lacks${1##*/}
  why="${at:-/} cannot be entered"
  cd -P -- "$at/" 2>/dev/null && [ "$(env pwd -P)" = "${at:-/}" ] || return 1
  while [ -n "$left" ]; do
    part=${left%%/*}
    case $left in (*/*) left=${left#*/} ;; (*) left= ;; esac
    case $part in ('' | .) continue ;; (..) why="$1 has .. below what is there"; return 1 ;; esac
    at=$at/$part
    why="$at is not a folder, or is a link"
    output=$(mkdir -- "$part" 2>&1) || [ -d "$part" ] || [ -e "$part" ] || [ -L "$part" ] || why=$output
    cd -P -- "./$part" 2>/dev/null && [ "$(env pwd -P)" = "$at" ] || return 1
    who=$(stat -c %u .)
    case $who in
      (0 | "$mine") ;;
      (*)
        [ -z "$left" ] && [ "$who" = "${2:-0}" ] && continue
        why="$at belongs to $(account "$who" 1 || echo "uid $who")"
        return 1
        ;;
    esac
  done
}
# whose PATH: who must work there: the user who owns the folder or one above it; empty: root, or who
# we are.
whose() {
  way "$1"
  who=
  [ -z "$theirs" ] || who=$(account "$theirs" 1) ||
    no "$at belongs to uid $theirs, which is no account here; nothing was copied: give it to one"
  [ -n "$who" ] || [ "$mine" != 0 ] || [ -z "$open" ] ||
    no "others than root may write in $open, and could lead root elsewhere; nothing was copied: \
chmod go-w $open, or let another user ${instead:-train (launcher_user)}"
}
quoted() { printf '%s\n' "$1" | sed -e "s/'/'\\\\''/g" -e "1s/^/'/" -e "\$s/\$/'/"; }
# as NAME SH [SECONDS]: its output comes by stdout. If that user stops it, our time, our output and
# the lock of this run are not blocked.
as() {
  set -- "${3:-300}" "user=$(quoted "$1")
$as_user
{ cd / && as_user $(quoted "$2"); echo \"ended \$?\"; } 2>&1 | tail -c 65536"
  limit=$1
  timeout --version >/dev/null 2>&1 || limit=
  { printed=$(${limit:+timeout -s KILL "$limit"} sh -c "$2" 9>&-); } 2>/dev/null
  case $printed in
    (*'ended '[0-9] | *'ended '[0-9][0-9] | *'ended '[0-9][0-9][0-9]) ;;
    (*) printed="it did not end within $1 s; ended 124" ;;
  esac
  set -- "${printed##*ended }"
  printed=${printed%ended *}
  [ -z "$printed" ] || printf '%s\n' "$printed"
  return "$1"
}
