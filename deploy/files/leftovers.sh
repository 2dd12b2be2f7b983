# Clear away what runs that were killed have left in /var/tmp, a day ago or more.
# shellcheck shell=sh
find /var/tmp -maxdepth 1 -user "$(id -u)" -mtime +0 \( -name 'gpu-node-wheels.*' -o \
  -name 'gpu-node-packages.*' -o -name 'gpu-node-pip.*' -o -name 'gpu-node-*.whl' \) \
  -exec rm -rf {} + 2>/dev/null
