"""The mount that a folder belongs to: whether /etc/fstab has one for it that is not mounted."""

from __future__ import annotations

# A function of POSIX sh. It prints `unmounted POINT` where the nearest mount point of fstab above a
# folder, or the folder itself, has no mount, and `mountpoint` where the folder is a mount point.
ASK = r"""
mounts() {
  [ -r /proc/self/mountinfo ] || return 0
  folder=$(readlink -f "$1" 2>/dev/null) && [ -n "$folder" ] || folder=$1
  tables=/proc/self/mountinfo
  [ ! -r /etc/fstab ] || tables="$tables /etc/fstab"
  # shellcheck disable=SC2086
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
    }' $tables
}
"""


def parse(text: str) -> tuple[dict[str, str | bool], str]:
    """Return the fields that the leading lines of `ASK` give, and the lines behind them."""
    found: dict[str, str | bool] = {}
    while text:
        line, _, rest = text.partition("\n")
        if line == "mountpoint":
            found["is_mount"] = True
        elif line.startswith("unmounted /"):
            found["unmounted"] = line.removeprefix("unmounted ")
        else:
            break
        text = rest
    return found, text
