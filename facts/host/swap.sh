# Pages that were swapped in since the boot, and the seconds since then.
awk '/^pswpin / { print }
  FILENAME == "/proc/uptime" { print "uptime", $1 }' /proc/vmstat /proc/uptime
