# Prints `NODE ADDRESS` and the route to it, for each line of $asked.
PATH=$PATH:/usr/sbin:/sbin; export PATH
while read -r node address; do
  case $address in
    ('') continue ;;
    (*:*) ;;
    (*[!0-9.]*)
      address=$(getent ahosts "$address" 2>/dev/null </dev/null | sed -n '1s/[[:space:]].*//p') ;;
  esac
  printf '%s %s\n' "$node" "${address:--}"
done <<END | routes_to
$asked
END
