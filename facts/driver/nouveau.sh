"""Boot images: which initramfs holds nouveau, or an nvidia module from before the installed one."""

from __future__ import annotations

from facts.area import State
from facts.kernels import SBIN
from facts.probe import Readings, Section

# An initramfs carries the blacklist, and the modules, as they were when it was made. To list one
# takes a second or two: only one that is older than the blacklist or than the nvidia module is
# listed, and for 20 s at most.
_NOUVEAU = (
    SBIN
    + r"""
word='[[:space:]]+nouveau'
barred="^[[:space:]]*(blacklist${word}|install${word}[[:space:]]+/(usr/)?bin/(true|false))[[:space:]]*$"
barrier=
for folder in /etc /run /usr/lib /lib; do
  for f in "$folder"/modprobe.d/*.conf; do
    grep -Eqs "$barred" "$f" || continue
    printf 'blacklist %s\n' "$f"
    barrier=${barrier:-$f}
  done
done
grep -Eqs '(^| )([a-z.]*blacklist=[^ ]*nouveau|nouveau\.modeset=0)' /proc/cmdline && echo cmdline
now() { date +%s; }
started=$(now)
# list IMAGE: what it holds, with sizes, in `held`; empty where that cannot be read
list() {
  [ "$1" != "${listed:-}" ] || return 0
  listed=$1 held=
  [ -r "$1" ] && [ $(($(now) - started)) -lt 20 ] || return 0
  ! command -v lsinitramfs >/dev/null 2>&1 || held=$(lsinitramfs -l "$1" 2>/dev/null)
  [ -z "$held" ] || return 0
  ! command -v lsinitrd >/dev/null 2>&1 || held=$(lsinitrd "$1" 2>/dev/null)
}
# Packages keep the time at which a file was made: when it came here counts.
is_before() { [ "$(stat -c %Y "$1")" -le "$(stat -c %Z "$2")" ]; }
nouveau_in() {
  answer=no
  [ -z "$barrier" ] || is_before "$1" "$barrier" || return 0
  list "$1"
  case $held in
    '') answer=closed ;;
    */nouveau.ko*) answer=yes ;;
  esac
}
# The size tells one build from another: what an image holds has no version to be read from here.
nvidia_in() {
  list "$1"
  answer=closed
  [ -z "$held" ] || answer=$(echo "$held" |
    awk -v name="${2##*/}" -v size="$(stat -L -c %s "$2")" '
      $NF ~ /\/nvidia(-current)?\.ko(\.(xz|gz|zst))?$/ {
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
  for f in "$d"/updates/dkms/nvidia.ko* "$d"/updates/dkms/nvidia-current.ko* \
    "$d"/updates/nvidia.ko* "$d"/extra/nvidia.ko* "$d"/extra/nvidia*/nvidia.ko* \
    "$d"/extra/drivers/video/nvidia/nvidia.ko* \
    "$d"/weak-updates/nvidia*/nvidia.ko* "$d"/kernel/nvidia-[0-9]*/nvidia.ko* \
    "$d"/kernel/drivers/video/nvidia.ko*; do
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
"""
)

SECTIONS = (Section("driver.nouveau", _NOUVEAU, seconds=30, root=True),)


class Nouveau(State):
    """What keeps nouveau away: files of modprobe.d and the kernel's command line.

    `kernels` are those that have the module, `initramfs` those whose initramfs holds it (None where
    that could not be read).
    """

    blacklists: tuple[str, ...]
    cmdline: bool
    kernels: tuple[str, ...]
    initramfs: dict[str, bool | None]


def parse_images(text: str) -> tuple[Nouveau, dict[str, bool | None]]:
    """Parse `blacklist FILE`, `cmdline`, `kernel NAME` and `initramfs KERNEL yes|no|closed`.

    Of `module KERNEL same|no|other|closed` the second value is made: whether the initramfs holds
    another nvidia module than the installed one.
    """
    rows = [line.split() for line in text.splitlines()]
    has = {"yes": True, "no": False, "closed": None, "same": False, "other": True}
    nouveau = Nouveau(
        blacklists=tuple(row[1] for row in rows if row[0] == "blacklist"),
        cmdline=["cmdline"] in rows,
        kernels=tuple(row[1] for row in rows if row[0] == "kernel"),
        initramfs={row[1]: has[row[2]] for row in rows if row[0] == "initramfs"},
    )
    return nouveau, {row[1]: has[row[2]] for row in rows if row[0] == "module"}


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields that are about boot images."""
    nouveau, stale = readings.take("driver.nouveau", parse_images) or (None, None)
    return {"nouveau": nouveau, "stale_images": stale}
