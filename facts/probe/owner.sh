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
  case $1 in (0 | root)
    { IFS= read -r owner_line </etc/passwd; } 2>/dev/null
    case $owner_line in (root:[!:]:0:*:*:*:*) printf '%s\n' "$owner_line"; return ;; esac
  esac
  getent passwd "$1" 2>/dev/null ||
    awk -F: -v key="$1" '$1 == key || $3 == key { print; exit }' /etc/passwd | grep .
}
# owner_sees: takes what `walk` has seen into account for $start.
owner_sees() {
  if [ "$walk_uid" != 0 ]; then
    [ "$found" = 0 ] || [ "$found" = "$walk_uid" ] ||
      owner_fail "$start is not run: uid $walk_uid may change $walk_at, uid $found may change $whose; \
give it to one account: chown -R"
    [ "$found" = "$walk_uid" ] || whose=$walk_at
    found=$walk_uid
  fi
  writers "$walk_mode"
  case $writers:$walk_rest in (sticky:*[!/]*) return 0 ;; esac
  case $walk_mode:$walk_rest in
    ([!l]???????w*:*[!/]*) owner_fail "$start is not run: everyone may write $walk_at; chmod +t $walk_at" ;;
    ([!l]???????w*) owner_fail "$start is not run: everyone may write $walk_at; chmod o-w $walk_at" ;;
  esac
  case $writers in
    (list) owner_fail "$start is not run: others may write $walk_at; setfacl -b $walk_at" ;;
    (group | sticky) doubts="$doubts$walk_gid $walk_at$walk_line" ;;
  esac
}
owner_lacks() {
  case $walk_why in (*'ermission denied'*) [ "$found" = 0 ] || return 1 ;; esac
  owner_fail "$start is not run: cannot look at $walk_at: ${walk_why##*: }"
}
owner_of() (
  unset IFS
  found=0 whose='' doubts=''
  for start; do
    case $start in ('' | *"$walk_line"* | [!/]*) owner_fail "no path to run: $start" ;; esac
    walk "$start" owner_sees owner_lacks || [ -z "$walk_link" ] || owner_fail "$start: cannot follow $walk_link"
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
  limit=${owner_seconds:-20}
  # Without timeout(1) the time limit of the caller kills the whole process group.
  if command -v setsid >/dev/null 2>&1 &&
    { [ "${gn_timeout-}" = yes ] || timeout --version >/dev/null 2>&1; }; then apart=setsid
  else limit='' apart=''; fi
  if [ "$uid" = "$me" ]; then
    set -- ${limit:+timeout -s KILL "$limit"} "$@"
    apart='' # its terminal is its own
  elif [ "$me" != 0 ]; then
    [ "${owner_sudo:-no}" = yes ] ||
      owner_fail "$asked owns it, and ${gn_me:-$(id -un)} runs only what is root's or its own" 126
    set -- sudo -n -u "$name" -- ${limit:+timeout -s KILL "$limit"} "$@"
  elif env -i PATH="$path" setpriv --reuid "$uid" --regid "$gid" --init-groups true 2>/dev/null; then
    set -- ${limit:+timeout -s KILL "$limit"} setpriv --reuid "$uid" --regid "$gid" --init-groups "$@"
  else
    set -- ${limit:+timeout -s KILL "$limit"} su -s /bin/sh "$name" -c "exec $(owner_quoted "$@")"
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
