command -v ssh-keyscan >/dev/null 2>&1 || { echo 'ssh-keyscan is not installed'; exit 1; }
scan() {
  try=0 tries=@tries@
  while [ "$try" -lt "$tries" ]; do
    [ "$try" = 0 ] || sleep $((1 + $$ % 2))
    try=$((try + 1))
    limited @limit@ both ssh-keyscan -T @seconds@ -p "$3" -t "$4" "$2" </dev/null
    keys=$(printf '%s\n' "$output" | awk -v name="$1" '
      $2 ~ /^(ssh-|ecdsa-)/ && NF > 2 { print "key " name " " $2 " " $3 }')
    [ -z "$keys" ] || { printf '%s\n' "$keys"; return; }
    case $output in (*'No route'* | *unreachable* | *resolve* | *'not known'*) break ;; esac
  done
  last=$(printf '%s\n' "$output" | sed '/^#/d; /^[[:space:]]*$/d' | tail -n 1)
  printf 'none %s %s\n' "$1" "${last:-no SSH answers there}"
}
