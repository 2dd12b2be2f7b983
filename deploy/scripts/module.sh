# Load the running kernel's nvidia module, in the place of one of another version.
# Variables: version, later (yes: a reboot follows, and does what cannot be done now); in_use.sh
# stands before this, where a module is loaded already.
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
give_up() {
  [ "$later" != yes ] || { echo "gpu-node: nvidia: $1; the reboot will do it"; exit 0; }
  echo "gpu-node: nvidia: $1" >&2
  exit 1
}
loaded() { cat /sys/module/nvidia/version 2>/dev/null; }
# A module that is held by more than the modules that build on it.
held() {
  for each in /sys/module/nvidia /sys/module/nvidia_*; do
    [ -r "$each/refcnt" ] || continue
    others=$(find "$each/holders" -mindepth 1 2>/dev/null | grep -c .)
    [ "$(cat "$each/refcnt")" -le "$others" ] || { echo "${each##*/}"; return; }
  done
}
begin_again() { [ -z "$stopped" ] || systemctl start nvidia-persistenced >/dev/null 2>&1; }
stopped=
if [ -n "$(loaded)" ] && [ "$(loaded)" != "$version" ]; then
  if [ -d /run/systemd/system ] && systemctl -q is-active nvidia-persistenced 2>/dev/null; then
    stopped=yes
    trap begin_again EXIT
    systemctl stop nvidia-persistenced >/dev/null 2>&1
  fi
  holder=$(held)
  [ -z "$holder" ] ||
    give_up "$(loaded) cannot be unloaded: something holds $holder (a display, fabric manager, DCGM?); a reboot is due: --data reboot=true"
  for module in nvidia_fs nvidia_peermem gdrdrv nvidia_uvm nvidia_drm nvidia_modeset nvidia; do
    [ -d "/sys/module/$module" ] || continue
    said=$(rmmod "$module" 2>&1) ||
      give_up "$(loaded) cannot be unloaded: $(echo "$said" | tail -n 1); a reboot is due: --data reboot=true"
  done
fi
if [ -z "$(loaded)" ]; then
  said=$(modprobe nvidia 2>&1) || {
    kernel=$(dmesg 2>/dev/null | grep -iE 'nvidia|NVRM' | tail -n 2 | tr '\n' ' ')
    give_up "modprobe cannot load it: $(echo "$said" | tail -n 1)${kernel:+; the kernel says: $kernel}"
  }
  ! modinfo nvidia-uvm >/dev/null 2>&1 || modprobe nvidia-uvm 2>/dev/null || :
fi
[ "$(loaded)" = "$version" ] || give_up "$(loaded) is loaded, and not $version"
