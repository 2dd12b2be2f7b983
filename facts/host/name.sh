# The name that gethostname returns, the id of the boot, what the name resolves to here, and the
# offset of local time. An address comes once for each kind of socket.
read -r name </proc/sys/kernel/hostname || exit 1
echo "name $name"
read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id && echo "boot $boot"
{ found=$(timeout -s KILL 3 getent ahosts "$name"); code=$?; } 2>/dev/null
case $code in
  (0)
    while read -r address _; do
      echo "address $address"
    done <<END
$found
END
    ;;
  (2) ;;
  (*) echo "address ?" ;;
esac
unset TZ
echo "offset $(date +%z)"
