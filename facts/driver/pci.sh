# Lists the NVIDIA GPUs on the PCI bus, which needs no driver. Class 03 is a display controller.
for d in /sys/bus/pci/devices/*; do
  vendor='' class='' device=''
  { read -r vendor <"$d/vendor"; } 2>/dev/null
  [ "$vendor" = 0x10de ] || continue
  { read -r class <"$d/class"; } 2>/dev/null
  case $class in (0x03*) ;; (*) continue ;; esac
  { read -r device <"$d/device"; } 2>/dev/null
  driver=$(readlink "$d/driver" 2>/dev/null)
  # A link has at most the lanes of the card, and of the port above it, which a virtual one has not.
  lanes='' most='' above=''
  { read -r lanes <"$d/current_link_width"; read -r most <"$d/max_link_width"
    read -r above <"$d/../max_link_width"; } 2>/dev/null
  printf '%s %s %s %s %s %s\n' \
    "$device" "${driver##*/}" "${d##*/}" "${lanes:--}" "${most:--}" "${above:--}"
done
