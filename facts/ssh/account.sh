printf 'user %s\nuid %s\nhome %s\n' "$name" "$(id -u)" "$home"
key=$home/.ssh/id_ed25519
set --
for each in "$home" "$home/.ssh" "$home/.ssh/authorized_keys" "$key"; do
  [ ! -e "$each" ] || set -- "$@" "$each"
done
[ $# = 0 ] || ls -ldnL "$@" | while IFS= read -r line; do
  case $line in
    (*" $key") kind=key ;;
    (*" $home/.ssh/authorized_keys") kind=authorized ;;
    (*" $home/.ssh") kind=folder ;;
    (*) kind=home ;;
  esac
  printf 'mode %s %s\n' "$kind" "$line"
done
places "$home" "$home/.ssh" "$home/.ssh/authorized_keys" "$key" | sed 's/^/place /'
[ -e "$key" ] || [ ! -e "$key.pub" ] || echo "stray $key.pub"
[ -e "$key" ] || exit 0
[ -f "$key" ] || { echo 'unusable it is not a regular file'; exit 0; }
if output=$(ssh-keygen -y -P '' -f "$key" 2>&1 </dev/null); then
  printf 'public %s\n' "$output"
else
  printf 'unusable %s\n' "$(printf '%s\n' "$output" | tail -n 1)"
  [ ! -f "$key.pub" ] || printf 'public %s\n' "$(head -c 16384 "$key.pub" | head -n 1)"
fi
