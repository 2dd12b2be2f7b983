PATH=$PATH:/usr/sbin:/sbin; export PATH
route_to() {
  address=$2
  case $address in
    *:*) ;;
    *[!0-9.]*) address=$(getent ahosts "$address" 2>/dev/null | sed -n '1s/[[:space:]].*//p') ;;
  esac
  [ -n "$address" ] || { echo "$1 - no address"; return; }
  echo "$1 $address $(ip -o route get "$address" 2>&1 | head -n 1)"
}
