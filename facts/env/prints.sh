# Needs $user, $home and $entry of training_user.sh. It starts the login shell as sshd does, with no
# command to run. A shell other than bash is skipped: what it reads is unknown.
shell=${entry##*:}
case $(readlink -f "$shell") in (*/bash) ;; (*) exit 0 ;; esac
limited() {
  if [ "${gn_timeout-}" = yes ] || timeout --version >/dev/null 2>&1; then
    timeout -s KILL 5 "$@"
  else
    "$@"
  fi
}
as_sshd() {
  cd / && limited env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 "$@" \
    </dev/null 2>/dev/null
}
start_shell() {
  if [ "$user" = "$me" ]; then
    as_sshd HOME="$home" USER="$user" LOGNAME="$user" SHELL="$shell" "$shell" -c :
  else
    as_sshd su -s "$shell" "$user" -c :
  fi
}
# If the SSH user cannot become another user, the section env.launcher reports it.
[ "$user" = "$me" ] || [ "${gn_uid:-$(id -u)}" = 0 ] || exit 0
start_shell | head -c 65536 | od -An -v -tu1 | awk "$gn_hide"'
  { for (i = 1; i <= NF; i++) {
      count++
      if ($i == 10) ended = first != ""
      else if (!ended && length(first) < 80)
        first = first ($i < 32 || $i > 126 ? "?" : sprintf("%c", $i + 0)) } }
  END { print count + 0; print shown(first) }'
