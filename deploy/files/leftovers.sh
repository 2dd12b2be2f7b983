# Clear away what runs that were killed have left in /var/tmp, a day ago or more.
# shellcheck shell=sh
# With sudo the account that logs in has left some, too.
find /var/tmp -maxdepth 1 \( -user "$(id -u)" -o -user "${SUDO_UID:-$(id -u)}" \) -mtime +0 \( \
  -name 'gpu-node-wheels.*' -o -name 'gpu-node-sent.*' -o -name 'gpu-node-box.*' -o \
  -name 'gpu-node-packages.*' -o -name 'gpu-node-pip.*' -o -name 'gpu-node-*.whl' \) \
  -exec rm -rf {} + 2>/dev/null
