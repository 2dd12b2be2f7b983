# Prints settings of the kernel as they are (`PATH:VALUE` below /proc/sys, `lacks PATH`), and the lines of files that
# set one (`FILE:LINE`). Of two files with one name systemd reads the one in the first folder.
# Variables: names (paths below /proc/sys), keys (their pattern in a file).
cd /proc/sys || exit 1
set --
for each in $names; do
  if [ -e "$each" ]; then set -- "$@" "$each"; else echo "lacks $each"; fi
done
grep -sH '' "$@" /dev/null
seen=/
set --
for each in /etc/sysctl.d/*.conf /run/sysctl.d/*.conf /usr/local/lib/sysctl.d/*.conf /usr/lib/sysctl.d/*.conf \
  /lib/sysctl.d/*.conf; do
  case $seen in (*"/${each##*/}/"*) continue ;; esac
  seen=$seen${each##*/}/
  [ ! -f "$each" ] || set -- "$@" "$each"
done
grep -sHE "^[[:space:]]*-?[[:space:]]*($keys)[[:space:]]*=" "$@" /etc/sysctl.conf
:
