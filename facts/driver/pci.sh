# Lists the NVIDIA GPUs on the PCI bus, which needs no driver. Class 03 is a display controller.
for d in /sys/bus/pci/devices/*; do
  [ "$(cat "$d/vendor" 2>/dev/null)" = 0x10de ] || continue
  case $(cat "$d/class" 2>/dev/null) in 0x03*) ;; *) continue ;; esac
  driver=$(readlink "$d/driver" 2>/dev/null)
  printf '%s %s %s\n' "${d##*/}" "$(cat "$d/device")" "${driver##*/}"
done
