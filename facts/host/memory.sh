# Prints `NAME VALUE`. Files that a kernel does not have are left out: oom_kill is not in Linux 3.10,
# pressure not before 4.20. The files of the cgroup are a container's own; the first cgroup of a
# machine has no memory.events.
set -- /proc/meminfo /proc/vmstat /proc/uptime /proc/self/smaps
for file in /proc/pressure/memory /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory.max \
  /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  [ ! -r "$file" ] || set -- "$@" "$file"
done
awk '
  FILENAME == "/proc/uptime" { print "uptime", $1; next }
  FILENAME == "/proc/meminfo" {
    if ($1 ~ /^(MemTotal|MemAvailable|SwapTotal|SwapFree):$/) { sub(/:/, ""); print $1, $2 }
    next
  }
  FILENAME == "/proc/vmstat" { if ($1 ~ /^(pswpin|oom_kill)$/) print $1, $2; next }
  FILENAME == "/proc/self/smaps" {
    if ($1 == "KernelPageSize:" && !page) { page = $2; print "page", page }
    next
  }
  FILENAME == "/proc/pressure/memory" {
    for (i = 2; i <= NF; i++) if ($i ~ /^avg60=/) { sub(/avg60=/, "", $i); print $1, $i }
    next
  }
  FILENAME ~ /memory\.(max|limit_in_bytes)$/ { print "limit", $1; next }
  $1 == "oom_kill" { print "own_oom_kill", $2 }
' "$@"
echo "space $(readlink /proc/self/ns/pid)"
