# The name that gethostname returns, what it resolves to here, and the offset of local time.
read -r name </proc/sys/kernel/hostname || exit 1
echo "name $name"
if command -v getent >/dev/null 2>&1; then
  limited 3 getent ahosts "$name"
  case $code in
    0) printf '%s\n' "$output" | awk '!seen[$1]++ { print "address " $1 }' ;;
    2) ;;
    *) echo "address ?" ;;
  esac
else
  echo "address ?"
fi
unset TZ
echo "offset $(date +%z)"
