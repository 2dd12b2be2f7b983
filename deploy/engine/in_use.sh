# Refuse, with pid, user and command, while a process has a libnccl mapped or holds a GPU.
# Variables: allow (yes: change things all the same), holders (paths of programs that hold GPUs and
# that the change does no harm to, one a line), otherwise (the next step, if it is another one), gn_hide (facts/probe/redaction.py) and gn_process (facts/probe/process.py).
# Given: gn_hide gn_process
# shellcheck shell=sh disable=SC2154,SC2010,SC2012
eval "$gn_process"
group() { process_stat_of "$1/stat" | cut -d ' ' -f 4; }
# An init that root cannot read starts services, and computes nothing itself.
is_closed() { [ "$1" != /proc/1 ] && [ -d "$1" ] && ! grep -qs '^State:[[:space:]]*Z' "$1/status"; }
# 0: it uses a libnccl or a GPU; 1: it does not, or has ended; 2: it cannot be read.
uses() {
  grep -qs 'libnccl' "$1/maps"
  code=$?
  [ "$code" != 0 ] || return 0
  # It also fails if a file is closed while it reads.
  files=$(ls -l "$1/fd" 2>/dev/null) || files=$(ls -l "$1/fd" 2>/dev/null) ||
    files=$(ls -l "$1/fd" 2>/dev/null) || code=2
  case $files in (*' /dev/nvidia'[0-9]*) return 0 ;; esac
  if [ "$code" != 1 ] && is_closed "$1"; then return 2; fi
  return 1
}
# The name in the node's own file tree: a program keeps it when a package replaces its file.
is_harmless() {
  path=$(readlink "$1/exe" 2>/dev/null) || return 1
  [ -n "$path" ] && printf '%s\n' "$holders" | grep -qxF -e "${path% (deleted)}"
}
in_use() {
  ours=$(group "/proc/$$")
  ours=${ours:-unknown}
  # The session that runs this is not a job.
  above=$(callers)
  for process in /proc/[0-9]*; do
    uses "$process"
    case $? in (0) why= ;; (1) continue ;; (*) why=', which cannot be read' ;; esac
    case $above in (*" ${process#/proc/} "*) continue ;; esac
    # A preloaded libnccl is in this shell, too.
    [ "$(group "$process")" != "$ours" ] || continue
    ! is_harmless "$process" || continue
    user=$(ls -ld "$process" 2>/dev/null | awk '{ print $3 }')
    [ -n "$user" ] || continue # it has ended
    printf ', pid %s (%s: %s)%s' "${process#/proc/}" "$user" "$(command_line "$process")" "$why"
  done
}
if [ "$allow" != yes ]; then
  busy=$(in_use)
  [ -z "$busy" ] || {
    grep -qs libnccl /etc/ld.so.preload && busy="$busy; /etc/ld.so.preload puts a libnccl into each"
    echo "gpu-node: in use by ${busy#, }; nothing was changed: ${otherwise-end them, or give --data allow_disruption=true}" >&2
    exit 1
  }
fi
