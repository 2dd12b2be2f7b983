# `uid<tab>UID<tab>FIRST`: who trains, and the first port that needs no root. Then a line for each port
# that a program listens on: `port<tab>PORT<tab>ADDRESS`, the address as the kernel writes it.
first=$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start 2>/dev/null) || first=1024
printf 'uid\t%s\t%s\n' "$(id -u "${user:-$(id -un)}")" "$first"
for file in /proc/net/tcp /proc/net/tcp6; do
  [ ! -r "$file" ] || awk '
    BEGIN { digits = "0123456789ABCDEF" }
    $4 == "0A" {
      split($2, part, ":"); port = 0
      for (i = 1; i <= 4; i++) port = port * 16 + index(digits, substr(part[2], i, 1)) - 1
      print "port\t" port "\t" part[1]
    }' "$file"
done | sort -u | head -n @most@
