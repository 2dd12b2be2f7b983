printf 'user %s\nuid %s\nhome %s\n' "$name" "$(id -u)" "$home"
for each in "home $home" "folder $home/.ssh" "authorized $home/.ssh/authorized_keys" \
  "key $home/.ssh/id_ed25519"; do
  [ ! -e "${each#* }" ] || printf 'mode %s %s\n' "${each%% *}" "$(ls -ldnL "${each#* }")"
done
key=$home/.ssh/id_ed25519
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
