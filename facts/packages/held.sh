# Lists the processes that hold a lock of the package manager: /proc/locks has the pids, their links
# have the files. A user can choose names of files, and lock a file that all may read: only
# processes of root count, and only if they opened the file itself. yum and dnf also write a pid
# into a file.

# Whether process $1 belongs to root or to us and has the file $2 open. All known sh have -ef.
has_open() {
  # A user can have the folder of a process in /proc belong to root.
  case $(awk '$1 == "Uid:" { print $2 }' "/proc/$1/status" 2>/dev/null) in (0 | "$me") ;; (*) return 1 ;; esac
  ls "/proc/$1/fd" 2>/dev/null | {
    # shellcheck disable=SC3013
    while read -r fd; do [ ! "/proc/$1/fd/$fd" -ef "$2" ] || exit 0; done
    exit 1
  }
}
me=$(id -u)
name_of() { printf '%s' "$(cat "/proc/$1/comm" 2>/dev/null)" | tr -c '\40-\176' '?'; }
awk '$2 != "->" && $4 == "WRITE" && $5 > 0 { print $5 }' /proc/locks | sort -u |
while read -r pid; do
  file=$(ls -l "/proc/$pid/fd" 2>/dev/null | sed -n \
    -e 's/.* -> \(\/var\/lib\/dpkg\/lock\(-frontend\)\{0,1\}\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/apt\/lists\/lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/cache\/apt\/archives\/lock\)$/\1/p' \
    -e 's/.* -> \(\/run\/dnf\/rpmtransaction\.lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/rpm\/\.rpm\.lock\)$/\1/p' \
    -e 's/.* -> \(\/usr\/lib\/sysimage\/rpm\/\.rpm\.lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/rpm\/rpmdb\.sqlite\)$/\1/p' \
    -e 's/.* -> \(\/usr\/lib\/sysimage\/rpm\/rpmdb\.sqlite\)$/\1/p' | head -n 1)
  # In a container the same path is another file.
  [ -n "$file" ] && has_open "$pid" "$file" || continue
  printf '%s\t%s\t%s\n' "$file" "$pid" "$(name_of "$pid")"
done
for file in /var/run/yum.pid /var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/metadata_lock.pid \
  /var/cache/dnf/download_lock.pid; do
  pid=$(head -c 16 "$file" 2>/dev/null) && [ -n "$pid" ] && [ -d "/proc/$pid" ] || continue
  name=$(name_of "$pid")
  # The file of a killed program stays, and another program may have its pid now.
  case $name in (*yum* | *dnf* | *python* | *ackage*) ;; (*) continue ;; esac
  printf '%s\t%s\t%s\n' "$file" "$pid" "$name"
done
exit 0
