# Lists the kernels and the nvidia module of each. A folder without modules.dep and without an image
# is what a removal left behind. Debian names the file of the module as its sources: nvidia-current.
PATH=$PATH:/usr/sbin:/sbin; export PATH
names=nvidia
for d in /usr/src/nvidia*-[0-9]*; do
  d=${d##*/}
  case ${d%-*} in nvidia | nvidia-fs | 'nvidia*') ;; *) names="$names ${d%-*}" ;; esac
done
running=$(uname -r) || exit 1
printf 'running\t%s\n' "$running"
[ ! -d /boot ] || [ -x /boot ] || { echo '/boot is for root alone'; exit 1; }
for d in /lib/modules/*; do
  k=${d##*/}
  image=no; { [ ! -e "/boot/vmlinuz-$k" ] && [ ! -e "$d/vmlinuz" ]; } || image=yes
  [ -e "$d/modules.dep" ] || [ $image = yes ] || continue
  headers=no; [ ! -e "$d/build/Makefile" ] || headers=yes
  command -v modinfo >/dev/null 2>&1 || { echo 'modinfo is not installed'; exit 1; }
  for name in $names; do info=$(modinfo -k "$k" "$name" 2>/dev/null) && break; done
  value() { echo "$info" | sed -n "s/^$1:[[:space:]]*//p" | head -n 1; }
  printf 'kernel\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$k" "$headers" "$image" \
    "$(value filename)" "$(value version)" "$(value license)" "$(value signer)"
done
