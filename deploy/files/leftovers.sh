# Remove what killed runs have left in /var/tmp: what is a day old, and folders with the number of a
# process that no longer runs.
# shellcheck shell=sh disable=SC2016
# With sudo, the account that logs in has left files, too.
ours() { find /var/tmp -maxdepth 1 \( -user "$(id -u)" -o -user "${SUDO_UID:-$(id -u)}" \) "$@" 2>/dev/null; }
ours -mtime +0 \( \
  -name 'gpu-node-wheels.*' -o -name 'gpu-node-sent.*' -o -name 'gpu-node-box.*' -o \
  -name 'gpu-node-packages.*' -o -name 'gpu-node-pip.*' -o -name 'gpu-node-*.whl' \) \
  -exec rm -rf {} +
ours -name 'gpu-node-*.[0-9]*.??????' -exec sh -c 'for each; do
  pid=${each%.*}
  pid=${pid##*.}
  case $pid in *[!0-9]*) ;; *) [ -d "/proc/$pid" ] || rm -rf "$each" ;; esac
done' sh {} +
