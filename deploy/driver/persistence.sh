# Turn persistence mode on permanently: by the driver's daemon, or a unit of ours if it has none.
# Variables: later (yes: a reboot follows, after which the daemon does it), backups, owner (sh of facts/probe/owner.py).
# Units are enabled without a reload: that is needed by no boot.
# Needs: writers closed place containers noted
# Given: owner
# shellcheck shell=sh disable=SC2154,SC2015
eval "$owner"
fail() { echo "gpu-node: persistence mode: $1" >&2; exit 1; }
# It can hang for minutes if the module has a problem.
smi() {
  if timeout --version >/dev/null 2>&1; then timeout -s KILL 60 nvidia-smi "$@"; else nvidia-smi "$@"; fi
}
off() { smi --query-gpu=persistence_mode --format=csv,noheader 2>&1 | grep -v '^Enabled$'; }
# nvidia-smi and the daemon would load the module, whatever the reason is that it is not loaded.
is_loaded() { [ -d /sys/module/nvidia ]; }
# load UNIT: have systemd read its files again where they have changed
load() {
  [ -d /run/systemd/system ] || return 0
  case $(systemctl show -p NeedDaemonReload "$1" 2>/dev/null) in (*=yes) ;; (*) return 0 ;; esac
  if takes_gpus; then
    echo "gpu-node: persistence mode: $1 is as written from the next boot on: systemd is not reloaded, which takes the GPUs from running containers: $containers"
  else
    systemctl daemon-reload 2>/dev/null
  fi
}
is_loaded || [ "$later" = yes ] || fail 'the nvidia module is not loaded; nothing was changed'
# Of a user's folder in PATH it would be that user's program, and a unit starts it at each boot.
smi=$(command -v nvidia-smi) || smi=
[ -z "$smi" ] || account=$(owner_of "$smi" 2>&1) || fail "$account; nothing was changed"
[ -z "$smi" ] || [ "$account" = root ] ||
  fail "$account owns $smi, and root does not run it: put NVIDIA's before it in PATH; nothing was changed"
unit=nvidia-persistenced
has_unit=
for folder in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
  [ -f "$folder/$unit.service" ] || continue
  has_unit=yes
  # Ubuntu's starts it with persistence mode off.
  if grep -q '^ExecStart=.* --no-persistence-mode' "$folder/$unit.service"; then
    drop=/etc/systemd/system/$unit.service.d
    start=$(sed -n 's/^ExecStart=//p' "$folder/$unit.service" | sed 's/ --no-persistence-mode//')
    put "$drop/gpu-node.conf" <<END || fail "$drop/gpu-node.conf cannot be written"
[Service]
ExecStart=
ExecStart=$start
END
    load "$unit.service"
  fi
  systemctl -q is-enabled "$unit" 2>/dev/null || note persistence "$unit"
  output=$(systemctl --no-reload enable "$unit" 2>&1) || fail "$unit cannot be enabled: $(echo "$output" | tail -n 1)"
  [ ! -d /run/systemd/system ] || ! is_loaded || output=$(systemctl start "$unit" 2>&1) ||
    fail "$unit does not start: $(echo "$output" | tail -n 1)"
  break
done
# NVIDIA's installer may install the daemon, but no unit.
if [ -z "$has_unit" ] && command -v systemctl >/dev/null 2>&1; then
  own=gpu-node-persistence.service
  [ -n "$smi" ] || fail 'there is no nvidia-smi'
  put "/etc/systemd/system/$own" <<END || fail "$own cannot be written"
# Written by gpu-node: after a boot persistence mode would be off.
[Unit]
Description=Persistence mode of the NVIDIA GPUs
After=systemd-modules-load.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$smi -pm 1
[Install]
WantedBy=multi-user.target
END
  load "$own"
  output=$(systemctl --no-reload enable "$own" 2>&1) || fail "$own cannot be enabled: $output"
fi
is_loaded || exit 0 # the reboot does the rest
# It may have been running before; without systemd it was not started.
if [ -n "$(off)" ]; then
  output=$(smi -pm 1 2>&1) || [ "$later" = yes ] || fail "$(echo "$output" | tail -n 1)"
fi
[ "$later" = yes ] || [ -z "$(off)" ] || fail "it is still off: $(off | head -n 1)"
