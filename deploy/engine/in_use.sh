# Refuse, by name, what a script would end or break: `harmed` has a row for each disturbance. A reload of
# systemd is one, too, where a script may need it (containers.sh).
# Variables: disturbs (the script's line `Disturbs:`), allow (yes: change things all the same), holders
# (paths of programs that hold GPUs and that the change does no harm to, one a line), otherwise (the next step, if it is another one), gn_hide (facts/probe/redaction.py) and gn_process (facts/probe/process.py).
# Given: disturbs holders gn_hide gn_process
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
holds() {
  uses "$1"
  code=$?
  [ "$code" = 1 ] || ! is_harmless "$1" || code=1
  return "$code"
}
# processes TEST: a line for each process that passes a test, or of which it is unknown (2)
processes() {
  ours=$(group "/proc/$$")
  ours=${ours:-unknown}
  # The session that runs this is not a job.
  above=$(callers)
  for process in /proc/[0-9]*; do
    "$1" "$process"
    case $? in (0) why= ;; (2) why=', which cannot be read' ;; (*) continue ;; esac
    case $above in (*" ${process#/proc/} "*) continue ;; esac
    # A preloaded libnccl is in this shell, too.
    [ "$(group "$process")" != "$ours" ] || continue
    user=$(ls -ld "$process" 2>/dev/null | awk '{ print $3 }')
    [ -n "$user" ] || continue # it has ended
    printf '%s\n' "pid ${process#/proc/} ($user: $(command_line "$process"))$why"
  done
}
# harmed DISTURBANCE: a line for each process and container; ~ is before what is named, and not refused
harmed() {
  case $1 in
    # A container keeps the library of the module that was loaded when it began.
    (reload) processes holds; gpu_containers | cut -d ' ' -f 3- ;;
    (reboot) ended_containers; processes is_job ;;
    (*) processes holds ;;
  esac
}
if [ "$allow" != yes ]; then
  harm=$(harmed "$disturbs")
  busy=$(printf '%s\n' "$harm" | sed -n '/^[^~]/s/^/, /p' | tr -d '\n')
  [ -z "$busy" ] || {
    grep -qs libnccl /etc/ld.so.preload && busy="$busy; /etc/ld.so.preload puts a libnccl into each"
    printf '%s\n' "gpu-node: in use by ${busy#, }; nothing was changed: ${otherwise-wait until they have ended, end them, or give --data allow_disruption=true}" >&2
    exit 1
  }
  printf '%s\n' "$harm" | sed -n 's/^~/gpu-node: a reboot ends /p' >&2
fi
