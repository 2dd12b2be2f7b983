# Refuse, with pid, user and command, while a process has a libnccl mapped or holds a GPU.
# Variables: allow (yes: change things all the same). It stands before the script that changes.
# shellcheck shell=sh disable=SC2154,SC2010,SC2012
group() { sed 's/.*) //' "$1/stat" 2>/dev/null | cut -d' ' -f3; }
# Ourselves, and who called us: the session that this comes by is none of the jobs.
callers() {
  pid=$$
  while [ "${pid:-0}" -gt 1 ]; do
    printf ' %s ' "$pid"
    pid=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d' ' -f2)
  done
}
in_use() {
  ours=$(group "/proc/$$")
  above=$(callers)
  for process in /proc/[0-9]*; do
    # Daemons of the driver's own hold the GPUs for ever, and compute nothing.
    case $(cat "$process/comm" 2>/dev/null) in
      nvidia-persiste* | nv-hostengine | dcgm-exporter | nvidia-smi) continue ;;
    esac
    grep -qs 'libnccl' "$process/maps" ||
      ls -l "$process/fd" 2>/dev/null | grep -q ' /dev/nvidia[0-9]' || continue
    case $above in *" ${process#/proc/} "*) continue ;; esac
    # A preloaded libnccl is in our own shell, too.
    [ "$(group "$process")" != "$ours" ] || continue
    user=$(ls -ld "$process" 2>/dev/null | awk '{ print $3 }')
    command=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-100 |
      sed -e 's/\([Pp]ass[a-z]*[= ]\)[^ ]*/\1.../g' -e 's/\([Tt]oken[= ]\)[^ ]*/\1.../g')
    printf ', pid %s (%s: %s)' "${process#/proc/}" "$user" "${command% }"
  done
}
if [ "$allow" != yes ]; then
  busy=$(in_use)
  [ -z "$busy" ] || {
    grep -qs libnccl /etc/ld.so.preload && busy="$busy; /etc/ld.so.preload puts a libnccl into each"
    echo "gpu-node: in use by ${busy#, }; nothing was changed: end them, or give --data allow_disruption=true" >&2
    exit 1
  }
fi
