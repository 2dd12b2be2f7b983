# Lists the NVSwitches and the fabric manager. NVIDIA's devices of class 0680 are NVSwitches. comm
# has the first 15 letters of nv-fabricmanager. Needs $gn_process.
eval "$gn_process"
found=
for d in /sys/bus/pci/devices/*; do
  [ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$d/class" 2>/dev/null) in (0x0680*) ;; (*) continue ;; esac
  printf 'switch %s\n' "$(cat "$d/device")"
  found=yes
done
if command -v nv-fabricmanager >/dev/null 2>&1; then
  echo installed
  [ -z "$found" ] || timeout -s KILL 5 nv-fabricmanager --version 2>/dev/null |
    sed -n 's/.*[^0-9.]\([0-9][0-9]*\(\.[0-9][0-9]*\)\{1,2\}\).*/version \1/p'
fi
# A user may give a process any name, and have its folder in /proc belong to root.
named=$(of_processes comm grep -ls '^nv-fabricmanage') ||
  { echo 'the processes cannot be listed'; exit 1; }
printf '%s\n' "$named" | while read -r file; do
  ! awk '/^State:[ \t]*Z/ { ended = 1 } $1 == "Uid:" { uid = $2 } END { exit ended || uid != 0 }' \
    "${file%/comm}/status" 2>/dev/null || { echo running; break; }
done
