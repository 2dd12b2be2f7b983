# Remove what killed runs have left in /var/tmp.
# Variables: alone (yes: this run holds the lock; see lock.sh).
# shellcheck shell=sh disable=SC2086
# What is made under the lock is of no other run. What was sent may be of one that waits for the lock.
made='-mtime +0'
[ "${alone-}" != yes ] || made=
# With sudo, the account that logs in has left files, too.
find /var/tmp -maxdepth 1 \( -user "$(id -u)" -o -user "${SUDO_UID:-$(id -u)}" \) \( \
  \( -name 'gpu-node-wheels.*' -o -name 'gpu-node-box.*' -o -name 'gpu-node-packages.*' -o \
  -name 'gpu-node-pip.*' \) $made -o \
  \( -name 'gpu-node-sent.*' -o -name 'gpu-node-*.whl' \) -mtime +0 \) \
  -exec rm -rf {} + 2>/dev/null
