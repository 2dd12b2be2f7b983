# Remove what killed runs have left in /var/tmp, if it is a day old or more.
# shellcheck shell=sh
# With sudo, the account that logs in has left files, too.
find /var/tmp -maxdepth 1 \( -user "$(id -u)" -o -user "${SUDO_UID:-$(id -u)}" \) -mtime +0 \( \
  -name 'gpu-node-wheels.*' -o -name 'gpu-node-sent.*' -o -name 'gpu-node-box.*' -o \
  -name 'gpu-node-packages.*' -o -name 'gpu-node-pip.*' -o -name 'gpu-node-*.whl' \) \
  -exec rm -rf {} + 2>/dev/null
