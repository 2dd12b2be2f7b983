# Load the running kernel's nvidia module instead of one of another version. All other modules that
# depended on that one are loaded again, whether this succeeds or fails.
# Variables: version, later (yes: a reboot follows, and does what cannot be done now).
# Needs: lock containers in_use
# Disturbs: reload
# shellcheck shell=sh disable=SC2154
loaded() { cat /sys/module/nvidia/version 2>/dev/null; }
# users MODULE: the modules that depend on it, each before those that it depends on
users() (
  for each in /sys/module/"$1"/holders/*; do
    [ -e "$each" ] || continue
    users "${each##*/}"
    echo "${each##*/}"
  done
)
# stack: nvidia and all above it, in the order in which they can be unloaded. nvidia_fs resolves its
# symbols by name at run time, so it is not listed as a holder of nvidia.
stack() {
  for each in nvidia_fs $(users nvidia) nvidia_peermem nv_peer_mem gdrdrv nvidia_uvm nvidia_drm \
    nvidia_modeset nvidia; do
    [ ! -d "/sys/module/$each" ] || echo "$each"
  done | awk '!seen[$0]++'
}
# A module that is also held by something else than the modules that depend on it.
held() {
  for each in $(stack); do
    [ -r "/sys/module/$each/refcnt" ] || continue
    # Other users are visible only after nvidia_fs is unloaded: rmmod refuses if there are any.
    [ "$each" != nvidia ] || [ ! -d /sys/module/nvidia_fs ] || continue
    others=$(find "/sys/module/$each/holders" -mindepth 1 2>/dev/null | grep -c .)
    [ "$(cat "/sys/module/$each/refcnt")" -le "$others" ] || { echo "$each"; return; }
  done
}
# restore: load what this script has unloaded; what cannot be loaded is left in `lost`, with why
restore() {
  lost=
  for each in $gone; do
    [ ! -d "/sys/module/$each" ] || continue
    reason=$(modprobe "$each" 2>&1) || lost="$lost
$each: $reason"
  done
  [ -z "$stopped" ] || systemctl start nvidia-persistenced >/dev/null 2>&1
}
give_up() {
  restore
  trap - EXIT
  why="$1${lost:+; not loaded again:$lost}"
  [ "$later" != yes ] || { echo "gpu-node: nvidia: $why; the reboot will do it"; exit 0; }
  echo "gpu-node: nvidia: $why" >&2
  exit 1
}
stopped='' gone='' lost=''
trap restore EXIT
trap 'exit 1' HUP INT TERM
if [ -n "$(loaded)" ] && [ "$(loaded)" != "$version" ]; then
  if [ -d /run/systemd/system ] && systemctl -q is-active nvidia-persistenced 2>/dev/null; then
    stopped=yes
    systemctl stop nvidia-persistenced >/dev/null 2>&1
  fi
  holder=$(held)
  [ -z "$holder" ] ||
    give_up "$(loaded) cannot be unloaded: something holds $holder (a display, fabric manager, DCGM?); a reboot is due: --data reboot=true"
  for module in $(stack); do
    output=$(rmmod "$module" 2>&1) ||
      give_up "$(loaded) cannot be unloaded: $output; a reboot is due: --data reboot=true"
    gone="$module $gone"
  done
fi
if [ -z "$(loaded)" ]; then
  output=$(modprobe nvidia 2>&1) || {
    kernel=$(dmesg 2>/dev/null | grep -iE 'nvidia|NVRM' | tail -n 2 | tr '\n' ' ')
    give_up "modprobe cannot load it: ${output:-it gives no reason}${kernel:+; the kernel says: $kernel}"
  }
fi
[ "$(loaded)" = "$version" ] || give_up "$(loaded) is loaded, and not $version"
if [ ! -d /sys/module/nvidia_uvm ] && modinfo nvidia-uvm >/dev/null 2>&1; then
  output=$(modprobe nvidia-uvm 2>&1) || echo "gpu-node: nvidia-uvm: modprobe cannot load it: $output"
fi
restore
trap - EXIT
[ -z "$lost" ] || give_up "$version is loaded, and needs manual action: modules that were loaded before do not fit it"
