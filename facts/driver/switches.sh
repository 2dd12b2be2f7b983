# Lists the NVSwitches and the fabric manager. NVIDIA's devices of class 0680 are NVSwitches. comm
# has the first 15 letters of nv-fabricmanager.
for d in /sys/bus/pci/devices/*; do
  [ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$d/class" 2>/dev/null) in 0x0680*) ;; *) continue ;; esac
  printf 'switch %s %s\n' "${d##*/}" "$(cat "$d/device")"
done
! command -v nv-fabricmanager >/dev/null 2>&1 || echo installed
! cat /proc/[0-9]*/comm 2>/dev/null | grep -q '^nv-fabricmanage' || echo running
