# Prints the boots and shutdowns of wtmp, newest first, in UTC. `last` of busybox and of systems
# without wtmp has no such list: then the journal of the boot before shows how it ended.
[ "$(readlink /proc/self/ns/pid)" = 'pid:[@space@]' ] || { echo container; exit; }
echo "now $(date +%s) $(cut -d ' ' -f 1 /proc/uptime)"
rows=
if command -v last >/dev/null 2>&1; then
  TZ=UTC0 && export TZ
  limited 5 last -x -F -n 20 reboot shutdown
  [ "$code" != 0 ] || rows=$(printf '%s\n' "$output" | grep -E '^(reboot|shutdown) ')
  printf '%s\n' "$rows"
fi
[ "$(printf '%s\n' "$rows" | wc -l)" -lt 2 ] && [ -r /etc/machine-id ] || exit 0
read -r id </etc/machine-id
[ -d "/var/log/journal/$id" ] && command -v journalctl >/dev/null 2>&1 || exit 0
limited 8 journalctl -q -b -1 -n 40 -o cat
if [ "$code" != 0 ] || [ -z "$output" ]; then exit 0; fi
ended='^Journal stopped|^Reached target .*(Shutdown|Power[- ]Off|Reboot|Halt)|^systemd-shutdown'
if printf '%s\n' "$output" | grep -Eq "$ended"; then echo "journal clean"; else echo "journal unclean"; fi
