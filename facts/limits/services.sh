# Prints the limits of the daemons that start what launchers start: sshd, of which this session is a
# part, and slurmd. For each a line `service NAME UNIT` (UNIT: - where systemd does not run it), its
# /proc/PID/limits, a line `bounds CAPABILITIES UID_MAP`, and a line `unit PATH:LINE:TEXT` for each limit
# that a file of its unit sets.
report() {
  name=$1 pid=$2 unit=-
  [ -r "/proc/$pid/limits" ] || return 0
  while IFS=: read -r _ _ path; do
    case ${path##*/} in (*.service) unit=${path##*/} ;; esac
  done <"/proc/$pid/cgroup"
  [ -d /run/systemd/system ] || unit=-
  echo "service $name $unit"
  cat "/proc/$pid/limits" || return 1
  bound='' map=''
  while read -r key value; do
    case $key in (CapBnd:) bound=$value; break ;; esac
  done <"/proc/$pid/status"
  [ ! -r "/proc/$pid/uid_map" ] || read -r map <"/proc/$pid/uid_map"
  echo "bounds $bound $map"
  set --
  for file in "/usr/lib/systemd/system/$unit" "/lib/systemd/system/$unit" \
    "/etc/systemd/system/$unit" "/usr/lib/systemd/system/$unit.d"/*.conf \
    "/run/systemd/system/$unit.d"/*.conf "/etc/systemd/system/$unit.d"/*.conf; do
    [ "$unit" = - ] || [ ! -f "$file" ] || [ ! -r "$file" ] || set -- "$@" "$file"
  done
  [ $# = 0 ] || awk 'FNR < 5000 && /^[ \t]*Limit(NOFILE|MEMLOCK|NPROC)[ \t]*=/ {
    print "unit " FILENAME ":" FNR ":" substr($0, 1, 200) }' "$@"
}
pid=$$ sshd=
while [ "${pid:-0}" -gt 0 ] && [ -r "/proc/$pid/status" ]; do
  comm='' parent=0
  while read -r key value; do
    case $key in (Name:) comm=$value ;; (PPid:) parent=$value; break ;; esac
  done <"/proc/$pid/status"
  case $comm in (sshd) sshd=$pid ;; esac
  pid=$parent
done
[ -z "$sshd" ] || report sshd "$sshd" || exit 1
for file in /run/slurmd.pid /run/slurm/slurmd.pid /var/run/slurmd.pid; do
  [ -f "$file" ] && [ -r "$file" ] && read -r pid <"$file" || continue
  case $pid in ('' | *[!0-9]*) continue ;; esac
  comm=
  { read -r comm <"/proc/$pid/comm"; } 2>/dev/null
  [ "$comm" != slurmd ] || { report slurmd "$pid" || exit 1; break; }
done
