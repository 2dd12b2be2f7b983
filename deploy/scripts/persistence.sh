# Turn persistence mode on, for good: by the driver's daemon where there is one.
# Variables: later (yes: a reboot follows, after which the daemon does it).
# shellcheck shell=sh disable=SC2154
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: persistence mode: $1" >&2; exit 1; }
off() { nvidia-smi --query-gpu=persistence_mode --format=csv,noheader 2>&1 | grep -v '^Enabled$'; }
unit=nvidia-persistenced
for folder in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
  [ -f "$folder/$unit.service" ] || continue
  said=$(systemctl enable "$unit" 2>&1) || fail "$unit cannot be enabled: $(echo "$said" | tail -n 1)"
  [ ! -d /run/systemd/system ] || said=$(systemctl start "$unit" 2>&1) ||
    fail "$unit does not start: $(echo "$said" | tail -n 1)"
  break
done
[ "$later" != yes ] || [ -z "$(off)" ] || exit 0
# Some units start it with persistence mode off, and without systemd nobody has started it.
if [ -n "$(off)" ]; then
  said=$(nvidia-smi -pm 1 2>&1) || fail "$(echo "$said" | tail -n 1)"
fi
[ -z "$(off)" ] || fail "it is still off: $(off | head -n 1)"
