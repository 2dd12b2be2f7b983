# Prints the boots and shutdowns of wtmp, newest first, in UTC. `last` of busybox and of systems
# without wtmp has no such list: then the journal of the boot before shows how it ended.
[ "$(readlink /proc/self/ns/pid)" = 'pid:[@space@]' ] || { echo container; exit; }
read -r uptime _ </proc/uptime
echo "now $(date +%s) $uptime"
TZ=UTC0 && export TZ
rows=$(last -x -F -n 20 reboot shutdown 2>/dev/null) || rows=
printf '%s\n' "$rows"
case $rows in (*"system boot"*"system "*) exit 0 ;; esac
[ -r /etc/machine-id ] && read -r id </etc/machine-id && [ -d "/var/log/journal/$id" ] || exit 0
{ tail=$(timeout -s KILL 8 journalctl -q -b -1 -n 40 -o cat); } 2>/dev/null || exit 0
[ -n "$tail" ] || exit 0
ended='^Journal stopped|^Reached target .*(Shutdown|Power[- ]Off|Reboot|Halt)|^systemd-shutdown'
if printf '%s\n' "$tail" | grep -Eq "$ended"; then echo "journal clean"; else echo "journal unclean"; fi
