# Lists the kernels and the nvidia module of each. A folder without modules.dep and without an image
# is what a removal left behind. Debian names the file of the module as its sources, such as
# nvidia-current; where several are built, modprobe's own settings have the one that it loads.
PATH=$PATH:/usr/sbin:/sbin; export PATH
names=$(sed -n 's/^install nvidia modprobe -i \(nvidia-[a-z0-9-]*\) .*/\1/p' \
  /etc/modprobe.d/*.conf 2>/dev/null | head -n 1)
names="$names nvidia"
for d in /usr/src/nvidia*-[0-9]*; do
  d=${d##*/}
  case ${d%-*} in (nvidia | nvidia-fs | 'nvidia*') ;; (*) names="$names ${d%-*}" ;; esac
done
running=$(uname -r) || exit 1
printf 'running\t%s\n' "$running"
[ ! -d /boot ] || [ -x /boot ] || { echo '/boot is for root alone'; exit 1; }
has_modinfo=
for d in /lib/modules/*; do
  k=${d##*/}
  image=no; { [ ! -e "/boot/vmlinuz-$k" ] && [ ! -e "$d/vmlinuz" ]; } || image=yes
  [ -e "$d/modules.dep" ] || [ $image = yes ] || continue
  headers=no; [ ! -e "$d/build/Makefile" ] || headers=yes
  [ -n "$has_modinfo" ] || command -v modinfo >/dev/null 2>&1 ||
    { echo 'modinfo is not installed'; exit 1; }
  has_modinfo=yes
  for name in $names; do info=$(modinfo -k "$k" "$name" 2>/dev/null) && break; done
  file='' version='' license='' signer=''
  while read -r key value; do
    case $key in
      (filename:) file=${file:-$value} ;;
      (version:) version=${version:-$value} ;;
      (license:) license=${license:-$value} ;;
      (signer:) signer=${signer:-$value} ;;
    esac
  done <<END
$info
END
  printf 'kernel\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$k" "$headers" "$image" \
    "$file" "$version" "$license" "$signer"
done
