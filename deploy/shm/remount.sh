# Give the tmpfs at /dev/shm another size; its other options, and every other mount, stay.
# Variables: kib, flags (as the mount has them now; empty where nothing is mounted).
# shellcheck shell=sh disable=SC2154
set -u
fail() { echo "gpu-node: /dev/shm: $1" >&2; exit 1; }
if [ -n "$flags" ]; then
  output=$(mount -o "remount,$flags,size=${kib}k" /dev/shm 2>&1) || fail "remount refused: $output"
  exit 0
fi
mkdir -p /dev/shm || fail "cannot be made"
[ -z "$(ls -A /dev/shm)" ] || fail "is a plain directory in use; a mount would hide its files"
output=$(mount -t tmpfs -o "rw,nosuid,nodev,size=${kib}k" tmpfs /dev/shm 2>&1) ||
  fail "mount refused: $output"
