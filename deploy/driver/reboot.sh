# Reboot if the driver needs it, after a moment, so that the answer arrives first.
# Variables: version (the module's), mark (a file that is gone after a boot), look (yes: only look).
# Needs: lock containers boot_ends in_use
# Disturbs: reboot
# shellcheck shell=sh disable=SC2154
if [ "$(cat /sys/module/nvidia/version 2>/dev/null)" = "$version" ] &&
  [ ! -d /sys/module/nouveau ] && [ -e "/lib/modules/$(uname -r)" ]; then
  echo 'gpu-node: reboot: no longer needed'
  exit 0
fi
[ "$look" != yes ] || exit 0
: >"$mark" || { echo "gpu-node: reboot: $mark cannot be written" >&2; exit 1; }
if [ -d /run/systemd/system ]; then command='systemctl reboot'; else command=reboot; fi
nohup sh -c "sleep 2; exec $command" </dev/null >/dev/null 2>&1 9>&- &
