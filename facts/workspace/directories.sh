for path; do
  status=$(stat -L -c '%a|%U|%G|%F' "$path" 2>&1) || status="? $status"
  printf '%s\t%s\n' "$path" "$status"
done
