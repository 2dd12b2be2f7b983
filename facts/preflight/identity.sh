# The full name may need a resolver, and it may not answer: hence the time limit.
own=$(cat /etc/machine-id 2>/dev/null || cat /var/lib/dbus/machine-id 2>/dev/null)
printf 'machine-id %s\n' "$own"
printf 'hostname %s\n' "$(hostname 2>/dev/null || uname -n)"
limited 4 hostname -f
[ "$code" = 0 ] || output=
printf 'full %s\n' "$output"
