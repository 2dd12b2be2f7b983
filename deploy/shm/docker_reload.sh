# Let the running dockerd read its daemon.json again: no container ends. It is never restarted.
# Variables: pid.
# shellcheck shell=sh disable=SC2154
fail() { echo "gpu-node: docker: $1" >&2; exit 1; }
[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] ||
  fail "pid $pid is no dockerd any more; it reads its file when it starts"
if command -v systemctl >/dev/null 2>&1 && systemctl is-active -q docker.service 2>/dev/null; then
  systemctl reload docker.service || fail "systemctl reload docker failed; run it manually"
else
  kill -HUP "$pid" || fail "it cannot be signalled; run kill -HUP $pid"
fi
