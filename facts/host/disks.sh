# Prints which local file system holds each path, and what df reports of it. Nothing on a network
# file system is touched: a dead server would block it. The kinds are those of local disks and memory.
# A path on a mount of another kind is left out, before and after its links are followed.
[ -r /proc/self/mountinfo ] || { echo 'no /proc/self/mountinfo'; exit 1; }
user=${user:-${gn_user:-${gn_me:-$(id -un)}}}
home=$(getent passwd "$user" 2>/dev/null || grep "^$user:" /etc/passwd 2>/dev/null)
home=${home%:*} home=${home##*:}
# Reads lines of `PATH<tab>PLACE`, and prints `MOUNT<tab>PATH` for each place on a local file system.
on_local() {
  awk -F '\t' '
    FILENAME == "/proc/self/mountinfo" {
      split($0, word, " "); point = word[5]
      gsub(/\\040/, " ", point); gsub(/\\011/, "\t", point); gsub(/\\134/, "\\", point)
      kind = $0; sub(/.* - /, "", kind); sub(/ .*/, "", kind)
      of[point] = kind
      next
    }
    seen[$0]++ { next }
    {
      nearest = ""
      for (point in of) {
        if ((point == "/" || $2 == point || index($2, point "/") == 1) &&
          length(point) > length(nearest)) nearest = point
      }
      kind = of[nearest]
      if (kind ~ /^(ext[234]|xfs|btrfs|zfs|f2fs|jfs|reiserfs|bcachefs|tmpfs|overlay|overlayfs|aufs)$/)
        print nearest "\t" $1
    }' /proc/self/mountinfo -
}
tab='	'
newline='
'
lexical() {
  for path in / /tmp /var ${home:+"$home" "$home/.cache"} "$@"; do
    case $path in (*"$tab"* | *"$newline"*) ;; (/*) printf '%s\t%s\n' "$path" "$path" ;; esac
  done
}
# The folder, or its nearest parent that exists, with its links followed: no process is needed. A
# home that does not exist is on no file system; a workspace will be there.
followed() {
  while IFS=$tab read -r _ path; do
    case $path in ("$home" | "$home/.cache") [ -d "$path" ] || continue ;; esac
    place=$path
    while [ -n "$place" ] && [ ! -d "$place" ]; do place=${place%/*}; done
    # This is a subshell: its own folder is of no importance.
    if cd -P "${place:-/}" 2>/dev/null; then place=$PWD; fi
    case $place in (*"$tab"* | *"$newline"*) continue ;; esac
    printf '%s\t%s\n' "$path" "${place:-/}"
  done
}
held=$(lexical "$@" | on_local | followed | on_local)
set --
while IFS=$tab read -r point path; do
  [ -n "$point" ] || continue
  printf 'path\t%s\t%s\n' "$point" "$path"
  case " $* " in (*" $point "*) ;; (*) set -- "$@" "$point" ;; esac
done <<END
$held
END
[ $# -gt 0 ] || exit 0
# A disk with errors becomes read-only as a whole: its options are behind the dash.
awk -v points=" $* " '{
  point = $5; gsub(/\\040/, " ", point)
  if (($6 ~ /^ro(,|$)/ || $NF ~ /^ro(,|$)/) && index(points, " " point " ")) print "closed\t" point
}' /proc/self/mountinfo
{ df -Pk "$@"; echo '=='; df -Pi "$@" 2>/dev/null; } | awk '
  BEGIN { kind = "bytes"; is_head = 1 }
  $0 == "==" { kind = "inodes"; is_head = 1; next }
  is_head { is_head = 0; next }
  { print kind "\t" $0 }'
exit 0
