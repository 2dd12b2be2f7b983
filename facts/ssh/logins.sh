# A login must not add a key to known_hosts, and must not use an open connection. ssh prints what
# sshd sends before its version only with -v, and that it accepts the key: where PAM refuses the account
# then, what it printed stands before ssh's last line.
unset SSH_AUTH_SOCK SSH_ASKPASS DISPLAY
end=$(($(date +%s) + all_seconds))
[ "$untried" = 0 ] || printf 'untried %s\n' "$untried"
try() {
  limited "$login_seconds" both ssh -v -n -o BatchMode=yes -o StrictHostKeyChecking=yes \
    -o UpdateHostKeys=no -o CheckHostIP=no -o ConnectTimeout="$connect_seconds" \
    -o NumberOfPasswordPrompts=0 -o ControlMaster=no -o ControlPath=none \
    -o ClearAllForwardings=yes -o ForwardAgent=no -o ForwardX11=no -o PermitLocalCommand=no \
    ${port:+-p "$port"} "$1" 'exit 0'
  last=
  [ "$code" != 0 ] || return 0
  # The output of the other node's shell may be in any encoding.
  output=$(printf '%s\n' "$output" | LC_ALL=C awk '
    { gsub(/\r/, ""); gsub(/[^ -~]/, "?"); print }
    /^debug1: Server accepts key/ { accepted = " @accepted@"; words = last = "" }
    /^Authenticated to / { accepted = "" }
    /^(debug[1-3]: |OpenSSH_|Authenticated to |Transferred: sent |Bytes per second: )/ { next }
    /[^ ]/ { if (last != "") words = words " " last; last = $0 }
    END {
      if (accepted && last ~ / closed by | reset by /)
        last = last accepted (words == "" ? "" : ":" substr(words, 1, 300))
      printf "%s.", last }')
  last=${output##*"
"}
  output=${output%"$last"} last=${last%.}
}
# Whether sshd closed the connection before it sent its version: then it counts no failed login.
is_dropped() {
  [ "$code" = 255 ] || return 1
  case $output in (*'Remote protocol version '*) return 1 ;; esac
  case $last in
    (*exchange_identification* | *'Connection reset by'* | *'Connection closed by'*) return 0 ;;
  esac
  return 1
}
is_punished() {
  [ "$code" = 255 ] && printf '%s\n' "$output" |
    grep '^debug1: .*exchange_identification: .*@punished@' >/dev/null
}
login() {
  [ "$(date +%s)" -lt "$end" ] || { printf 'pair %s %s -\n' "$1" "$2"; return; }
  try "$3"
  # sshd drops connections above MaxStartups: try again, after a pause that differs between nodes.
  for pause in $((1 + own_place % 4)) $((1 + (own_place + 2) % 4)); do
    is_dropped && ! is_punished || break
    sleep "$pause"
    try "$3"
  done
  if is_punished; then
    printf 'pair %s %s 255 @punished@\n' "$1" "$2"
    return 1
  fi
  printf 'pair %s %s %s %s\n' "$1" "$2" "$code" "$last"
}
lane() {
  count=0
  while read -r node address number; do
    if [ -n "$node" ] && [ "$((count % lanes))" = "$1" ]; then
      # Launchers run `ssh NAME`: the port is in ssh's settings.
      port=
      login "$node" name "$node" || { count=$((count + 1)); continue; }
      [ "$number" = @ssh_port@ ] || port=$number
      [ "$address" = - ] || login "$node" address "$address"
    fi
    count=$((count + 1))
  done <<END
$asked
END
}
number=0
while [ "$number" -lt "$lanes" ]; do
  lane "$number" &
  number=$((number + 1))
done
wait
