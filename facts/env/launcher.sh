# Prints the variables of a launcher's shell. For the SSH user this shell has them. For another user
# bash is started as sshd starts it, so that it reads ~/.bashrc, without a login. The second line of
# a value is not a variable. The last output of ~/.bashrc may have no newline at its end.
print_all='echo; if env -0 >/dev/null 2>&1; then env -0 | tr "\n\0" "?\n"; else env; fi'
if [ "$user" = "$me" ]; then
  [ ! -d "$home" ] || [ -x "$home" ] || { echo "$home is closed to $user"; exit 1; }
  all=$(eval "$print_all") || exit 1
elif [ "${gn_uid:-$(id -u)}" = 0 ]; then
  all=$(cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 \
    su -s /bin/bash "$user" -c "$print_all" 2>&1) ||
    { printf '%s\n' "$all" | sed '/^[A-Za-z_][A-Za-z0-9_]*=/d' | tail -n 1; exit 1; }
else
  echo "only root and $user can tell what a shell of $user has"; exit 1
fi
printf '%s\n' "$all" | awk -v names="$names" "$gn_hide"'
  BEGIN { wanted = "^(" names ")" }
  /^[A-Za-z]+_(proxy|PROXY)=/ { print shown($0); next }
  /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted {
    name = substr($0, 1, index($0, "=") - 1); print secret(name) ? name "=@hidden@" : $0 }'
