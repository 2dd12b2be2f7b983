# Reload the configuration of sshd; open sessions stay open.
# shellcheck shell=sh
PATH=$PATH:/usr/sbin:/sbin; export PATH
reload_sshd() {
  sshd -t || return 1
  if [ -d /run/systemd/system ]; then
    for unit in sshd ssh; do
      ! systemctl is-active --quiet "$unit.service" || { systemctl reload "$unit.service"; return; }
    done
    # A socket unit starts one sshd for each connection, which reads the file each time.
    for unit in sshd ssh; do
      ! systemctl is-active --quiet "$unit.socket" || return 0
    done
  fi
  file=$(sshd -T -C user=root,host=localhost,addr=127.0.0.1 | awk '$1 == "pidfile" { print $2 }')
  pid=$(cat "${file:-/run/sshd.pid}" 2>/dev/null)
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm")" = sshd ] && kill -HUP "$pid" ||
    { echo "gpu-node: sshd: cannot tell which process it is (PidFile)" >&2; return 1; }
}
reload_sshd
