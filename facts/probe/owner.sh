# owner_of PATH ...: prints the one account, beside root, that can change what is run at these
# paths. It examines each folder and link on the way from /, and fails with a reason on stderr if
# more accounts can change one. A folder that is closed to root (root_squash) is closed to others.
# as_owner PATH PROGRAM ...: runs a program as that account.
# as_account NAME PROGRAM ...: runs it as this account, with a clean environment, in /, without
# stdin and terminal, for $owner_seconds (20); 126: not possible. A user who is not root runs only
# programs of root or their own; with $owner_sudo=yes also those of another account.
owner_fail() { printf '%s\n' "$1" >&2; exit "${2:-1}"; }
owner_account() {
  # Every system has the account of root in the first line of this file.
  case $1 in 0 | root)
    { IFS= read -r owner_line </etc/passwd; } 2>/dev/null
    case $owner_line in root:[!:]:0:*:*:*:*) printf '%s\n' "$owner_line"; return ;; esac
  esac
  getent passwd "$1" 2>/dev/null ||
    awk -F: -v key="$1" '$1 == key || $3 == key { print; exit }' /etc/passwd | grep .
}
# owner_look MODE LINKS UID GID ...: checks $here by the output of ls; $rest: the rest of the path.
owner_look() {
  if [ "$3" != 0 ]; then
    [ "$found" = 0 ] || [ "$found" = "$3" ] ||
      owner_fail "$start is not run: uid $3 may change $here, uid $found may change $whose; \
give it to one account: chown -R"
    [ "$found" = "$3" ] || whose=$here
    found=$3
  fi
  case $1:$3:$rest in
    l* | d????????[tT]*:*:*[!/]*) ;; # others cannot rename what is in a sticky folder
    d???????w*:*[!/]*) owner_fail "$start is not run: everyone may write $here; chmod +t $here" ;;
    ????????w*) owner_fail "$start is not run: everyone may write $here; chmod o-w $here" ;;
    ?????w????+*) owner_fail "$start is not run: others may write $here; setfacl -b $here" ;;
    ?????w*) doubts="$doubts$4 $here$newline" ;;
  esac
}
# owner_ahead: sets $looks to the lines of ls about $here and all folders ahead of it, up to `..`; it
# is empty where one of them cannot be examined. One ls costs less than one for each folder, and a
# folder precedes those below it.
owner_ahead() {
  ahead=$rest at=$here
  set -- "$here"
  while :; do
    case $ahead in *[!/]*) ;; *) break ;; esac
    next=${ahead%%/*} ahead=${ahead#*/}
    case $next in '' | .) continue ;; ..) break ;; esac
    at=${at%/}/$next
    set -- "$@" "$at"
  done
  looks=$(ls -ldn "$@" 2>/dev/null) && looks=$looks$newline || looks=
}
owner_of() (
  set -f
  unset IFS
  found=0 whose='' doubts='' newline='
'
  for start; do
    case $start in '' | *"$newline"* | [!/]*) owner_fail "no path to run: $start" ;; esac
    here=/ rest=$start/ links=0 looks='' new=''
    owner_ahead
    while :; do
      if [ -n "$looks" ]; then
        look=${looks%%"$newline"*} looks=${looks#*"$newline"}
      else
        look=$(ls -ldn "$here" 2>&1) || {
          case $look in *'ermission denied'*) [ "$found" = 0 ] || break ;; esac
          owner_fail "$start is not run: cannot look at $here: ${look##*: }"
        }
      fi
      # shellcheck disable=SC2086 # into words
      owner_look $look
      # What ls has printed after a link is about its target.
      if [ -L "$here" ]; then
        looks='' new=yes
        links=$((links + 1))
        [ "$links" -lt 40 ] && to=$(readlink "$here") || owner_fail "$start: cannot follow $here"
        rest=$to/$rest
        case $to in /*) here=/ ;; *) here=${here%/*} ;; esac
      fi
      while :; do
        case $rest in *[!/]*) ;; *) break 2 ;; esac
        part=${rest%%/*} rest=${rest#*/}
        case $part in '' | .) ;; ..) here=${here%/*} looks='' new=yes ;; *) break ;; esac
      done
      here=${here%/}/$part
      [ -z "$new" ] || { owner_ahead; new=; }
    done
  done
  account=$(owner_account "$found") || owner_fail "$1 is not run: uid $found has no account here"
  IFS=: read -r account _ _ own _ <<END
$account
END
  while read -r gid here; do
    [ -z "$gid" ] || private_group "$gid" "$account" "$own" ||
      owner_fail "$1 is not run: the group $gid may write $here; chmod g-w $here"
  done <<END
$doubts
END
  printf '%s\n' "$account"
)
owner_quoted() {
  for word; do printf "'%s' " "$(printf '%s\n' "$word" | sed "s/'/'\\\\''/g")"; done
}
as_account() (
  cd / && entry=$(owner_account "$1") || owner_fail "$1 has no account here" 126
  asked=$1 me=${gn_uid:-$(id -u)}
  IFS=: read -r name _ uid gid _ home _ <<END
$entry
END
  shift
  [ "$uid" != 0 ] || [ "$me" = 0 ] || { uid=$me name=${gn_me:-$(id -un)}; home=${HOME:-/}; }
  path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  set -- env -i PATH="$path" HOME="$home" USER="$name" LOGNAME="$name" LC_ALL=C "$@"
  limit='timeout -s KILL '${owner_seconds:-20}
  # Without timeout(1) the time limit of the caller kills the whole process group.
  if command -v setsid >/dev/null 2>&1 &&
    { [ "${gn_timeout-}" = yes ] || timeout --version >/dev/null 2>&1; }; then apart=setsid
  else limit='' apart=''; fi
  # shellcheck disable=SC2086 # into words
  if [ "$uid" = "$me" ]; then
    set -- $limit "$@"
    apart='' # its terminal is its own
  elif [ "$me" != 0 ]; then
    [ "${owner_sudo:-no}" = yes ] ||
      owner_fail "$asked owns it, and ${gn_me:-$(id -un)} runs only what is root's or its own" 126
    set -- sudo -n -u "$name" -- $limit "$@"
  elif env -i PATH="$path" setpriv --reuid "$uid" --regid "$gid" --init-groups true 2>/dev/null; then
    set -- $limit setpriv --reuid "$uid" --regid "$gid" --init-groups "$@"
  else
    set -- $limit su -s /bin/sh "$name" -c "exec $(owner_quoted "$@")"
  fi
  # The variables of who runs this stay behind, before the account changes: they may be passwords.
  # So do descriptors: one of a lock would keep it for as long as a process of that account lives.
  $apart env -i PATH="$path" LC_ALL=C "$@" </dev/null \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
)
as_owner() {
  owner=$(owner_of "$1") || return 126
  shift
  as_account "$owner" "$@"
}
