echo "clock $(date +%s) $(cut -d ' ' -f 1 /proc/uptime)"
found=$(use) || { echo "$found"; exit 1; }
printf '%s\n' "$found"
printf '%s\n' "$found" | while read -r kind pid rest; do
  [ "$kind" = adopted ] && [ -r "/proc/$pid/environ" ] || continue
  # The process may end meanwhile.
  user=$(stat -c %U "/proc/$pid" 2>/dev/null) || continue
  names=$({ tr '\n\0' '?\n' <"/proc/$pid/environ"; } 2>/dev/null |
    awk -F = '$1 ~ /^(@names@)$/ && NF > 1 { printf " %s", $1 }')
  echo "launched $pid$names"
  printf 'command %s %s %s\n' "$pid" "$user" "$(command_line "/proc/$pid")"
done
