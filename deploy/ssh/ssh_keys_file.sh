# Create an empty authorized_keys, closed to others, if it is missing. Runs as its owner. Variables:
# home.
# shellcheck shell=sh disable=SC2154
set -u
umask 077
mkdir -p "$home/.ssh" && : >>"$home/.ssh/authorized_keys" || {
  echo "gpu-node: $home/.ssh/authorized_keys: cannot be made" >&2
  exit 1
}
! command -v restorecon >/dev/null 2>&1 || restorecon -R "$home/.ssh" >/dev/null 2>&1 || :
