# Put the files of a run back as they were before it, at a console of the node: for the day when SSH is
# broken. Each run leaves this beside its copies, as restore.sh. A file that has changed since stays as it
# is. This is a run itself: its folder gets a restore.sh, too.
# Variables: those of walk.sh and, the same for each file, of replace.sh, replacing (lock.sh and replace.sh), writing
# (write.sh, with what it needs), here (the folder of the run), live (lines of a path's pattern, a tab, and what goes on with the earlier content).
# Needs: place record pending walk
# shellcheck shell=sh disable=SC2154,SC2034
umask 077
say() { printf 'gpu-node: %s\n' "$1"; }
backups=$top/$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
back() {
  case $how in
    (same) say "$file: is as before the run"; return 0 ;;
    (back) ;;
    (*) say "$file: stays as it is: $why (copies of the run: $here)"; return 1 ;;
  esac
  case $mode in (-) mode=644 owners= ;; esac
  write="file=$(quoted "$file") before=$before after=$after mode=$mode owners=$owners check=
owner=$(quoted "${user:-root}") unchanged='it stays as it is'
$writing"
  (eval "$replacing") </dev/null || return 1
  say "$file: is as before the run"
  while IFS='	' read -r pattern words; do
    # shellcheck disable=SC2254 # it is a pattern
    case $file in ($pattern) say "$file: $words" ;; esac
  done <<LIVE
$live
LIVE
}
failed=0
while read -r owner path <&3; do
  look_at "$owner" "$path"
  back || failed=1
done 3<<FILES
$(changed_files)
FILES
[ ! -d "$backups" ] || { cp -p -- "$0" "$backups/restore.sh" && say "sh $backups/restore.sh takes this back"; }
[ ! -e "$here/also" ] || say "packages, wheels and modules stay as they are: see $here/also, or gpu-node restore"
exit "$failed"
