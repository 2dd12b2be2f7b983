# Lists the NVIDIA GPUs on the PCI bus, which needs no driver. Class 03 is a display controller.
for d in /sys/bus/pci/devices/*; do
  vendor='' class='' device=''
  { read -r vendor <"$d/vendor"; } 2>/dev/null
  [ "$vendor" = 0x10de ] || continue
  { read -r class <"$d/class"; } 2>/dev/null
  case $class in (0x03*) ;; (*) continue ;; esac
  { read -r device <"$d/device"; } 2>/dev/null
  driver=$(readlink "$d/driver" 2>/dev/null)
  printf '%s %s\n' "$device" "${driver##*/}"
done
