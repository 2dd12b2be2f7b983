# routes_to: reads lines `NODE ADDRESS` (-: unknown), prints each with what `ip -o route get` prints
# for the address. One ip asks for all; where its answers are ambiguous, as with busybox, one
# asks for each.
routes_to() {
  routes_asked=$(cat)
  [ -n "$routes_asked" ] || return 0
  {
    printf '%s\n=\n' "$routes_asked"
    routes_errors=$(printf '%s\n' "$routes_asked" |
      sed '/ -$/d; s/^[^ ]* /route get /' | ip -o -force -batch - 2>&1 >&3)
    printf '=\n%s\n' "$routes_errors"
  } 3>&1 | awk '
    $0 == "=" && part < 2 { part++; next }
    part == 0 { row[++rows] = $0; if ($2 != "-") at[++asked] = rows; next }
    part == 1 { answer[++answers] = $0; next }
    match($0, /^Command failed .*:[0-9]+$/) {
      number = $0; sub(/.*:/, "", number); failed[at[number + 0]] = why == "" ? $0 : why
      why = ""; count++
      next
    }
    { why = $0 }
    END {
      if (answers + count != asked) exit 1
      for (i = 1; i <= rows; i++) {
        if (row[i] ~ / -$/) print row[i] " no address"
        else print row[i] " " (i in failed ? failed[i] : answer[++given])
      }
    }' || printf '%s\n' "$routes_asked" | while read -r node address; do
      if [ "$address" = - ]; then echo "$node - no address"
      else echo "$node $address $(ip -o route get "$address" 2>&1 </dev/null | head -n 1)"; fi
    done
}
