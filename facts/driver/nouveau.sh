# Prints what blocks nouveau, and which initramfs has it. An initramfs holds the blacklist and the
# modules as they were when it was built. Listing one takes a second or two: only those that are
# older than the blacklist or than the nvidia module are listed, for at most 20 s.
PATH=$PATH:/usr/sbin:/sbin; export PATH
word='[[:space:]]+nouveau'
barred="^[[:space:]]*(blacklist${word}|install${word}[[:space:]]+/(usr/)?bin/(true|false))[[:space:]]*$"
set --
for f in /etc/modprobe.d/*.conf /run/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf \
  /lib/modprobe.d/*.conf; do
  [ ! -f "$f" ] || [ ! -r "$f" ] || set -- "$@" "$f"
done
found=
[ $# = 0 ] || found=$(grep -El "$barred" "$@" 2>/dev/null)
newline='
'
barrier=${found%%"$newline"*}
while IFS= read -r f; do
  [ -z "$f" ] || printf 'blacklist %s\n' "$f"
done <<END
$found
END
grep -Eqs '(^| )([a-z.]*blacklist=[^ ]*nouveau|nouveau\.modeset=0)' /proc/cmdline && echo cmdline
now() { date +%s; }
started=
# list IMAGE: sets $held to its files with sizes; empty where it cannot be read.
list() {
  [ "$1" != "${listed:-}" ] || return 0
  listed=$1 held=
  [ -n "$started" ] || started=$(now)
  [ -r "$1" ] && [ $(($(now) - started)) -lt 20 ] || return 0
  ! command -v lsinitramfs >/dev/null 2>&1 || held=$(lsinitramfs -l "$1" 2>/dev/null)
  [ -z "$held" ] || return 0
  ! command -v lsinitrd >/dev/null 2>&1 || held=$(lsinitrd "$1" 2>/dev/null)
}
# A package preserves the time at which a file was built: compare with its time of installation (%Z).
is_before() {
  times=$(stat -c '%Y %Z' "$1" "$2") && case $times in (*"$newline"*) ;; (*) false ;; esac || return 1
  built=${times%%"$newline"*} times=${times#*"$newline"}
  [ "${built% *}" -le "${times#* }" ]
}
nouveau_in() {
  answer=no
  [ -z "$barrier" ] || is_before "$1" "$barrier" || return 0
  list "$1"
  case $held in
    ('') answer=closed ;;
    (*/nouveau.ko*) answer=yes ;;
  esac
}
# The size distinguishes builds: the version of a module in an image cannot be read from here.
nvidia_in() {
  list "$1"
  answer=closed
  [ -z "$held" ] || answer=$(echo "$held" |
    awk -v name="${2##*/}" -v size="$(stat -L -c %s "$2")" '
      $NF ~ /\/nvidia(-(current|tesla|legacy)[a-z0-9-]*)?\.ko(\.(xz|gz|zst))?$/ &&
        $NF !~ /-(modeset|drm|uvm|peermem)\.ko/ {
        file = $NF
        sub(/.*\//, "", file)
        answer = file == name && $5 == size ? "same" : "other"
      }
      END { print answer == "" ? "no" : answer }')
}
for d in /lib/modules/*; do
  k=${d##*/}
  set -- "$d"/kernel/drivers/gpu/drm/nouveau/nouveau.ko*
  nouveau=
  [ ! -e "$1" ] || { nouveau=yes; printf 'kernel %s\n' "$k"; }
  module=
  for f in "$d"/updates/dkms/nvidia.ko* "$d"/updates/dkms/nvidia-current*.ko* \
    "$d"/updates/dkms/nvidia-tesla*.ko* "$d"/updates/dkms/nvidia-legacy*.ko* \
    "$d"/updates/nvidia.ko* "$d"/extra/nvidia.ko* "$d"/extra/nvidia*/nvidia.ko* \
    "$d"/extra/drivers/video/nvidia/nvidia.ko* \
    "$d"/weak-updates/nvidia*/nvidia.ko* "$d"/kernel/nvidia-[0-9]*/nvidia.ko* \
    "$d"/kernel/drivers/video/nvidia.ko*; do
    case $f in (*-modeset.ko* | *-drm.ko* | *-uvm.ko* | *-peermem.ko*) continue ;; esac
    [ ! -e "$f" ] || { module=$f; break; }
  done
  for image in "/boot/initramfs-$k.img" "/boot/initrd.img-$k"; do
    [ -e "$image" ] || continue
    [ -z "$nouveau" ] || { nouveau_in "$image"; printf 'initramfs %s %s\n' "$k" "$answer"; }
    [ -n "$module" ] && is_before "$image" "$module" || continue
    nvidia_in "$image" "$module"
    printf 'module %s %s\n' "$k" "$answer"
  done
done
exit 0
