# An image has `uninitialized` for none.
machine=
for file in /etc/machine-id /var/lib/dbus/machine-id; do
  [ -n "$machine" ] || read -r machine 2>/dev/null <"$file"
done
case $machine in (uninitialized) ;; (*) echo "$machine" ;; esac
