# Turn persistence mode on, for good: by the driver's daemon where there is one.
# Variables: none.
# shellcheck shell=sh
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: persistence mode: $1" >&2; exit 1; }
off() { nvidia-smi --query-gpu=persistence_mode --format=csv,noheader 2>&1 | grep -v '^Enabled$'; }
if [ -d /run/systemd/system ] && systemctl cat nvidia-persistenced >/dev/null 2>&1; then
  said=$(systemctl enable --now nvidia-persistenced 2>&1) ||
    fail "nvidia-persistenced does not start: $(echo "$said" | tail -n 1)"
  # Some units start it with persistence mode off.
  [ -z "$(off)" ] || nvidia-smi -pm 1 >/dev/null 2>&1
else
  said=$(nvidia-smi -pm 1 2>&1) || fail "$(echo "$said" | tail -n 1)"
fi
[ -z "$(off)" ] || fail "it is still off: $(off | head -n 1)"
