# Pages that were swapped in and out since the boot, and the seconds since then.
awk '/^pswp(in|out) / { print }
  FILENAME == "/proc/uptime" { print "uptime", $1 }' /proc/vmstat /proc/uptime
