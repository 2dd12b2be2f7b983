# mounts FOLDER: prints `unmounted POINT` where the nearest mount point of fstab, at the folder or
# above it, is not mounted, and `mountpoint` where the folder is a mount point.
mounts() {
  [ -r /proc/self/mountinfo ] || return 0
  folder=$(readlink -f "$1" 2>/dev/null) && [ -n "$folder" ] || folder=$1
  set -- /proc/self/mountinfo
  [ ! -r /etc/fstab ] || set -- "$@" /etc/fstab
  awk -v path="$folder" '
    FILENAME != "/etc/fstab" { mounted[$5]; next }
    $1 ~ /^#/ || $2 !~ /^\/./ || NF < 3 || $3 == "swap" { next }
    { point = $2; sub(/\/+$/, "", point) }
    (path == point || index(path, point "/") == 1) && length(point) > length(nearest) {
      nearest = point
    }
    END {
      if (nearest != "" && !(nearest in mounted)) print "unmounted " nearest
      if (path in mounted) print "mountpoint"
    }' "$@"
}
