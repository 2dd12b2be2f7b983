printf 'user %s\nuid %s\n' "$(id -un)" "$(id -u)"
[ "$(id -u)" != 0 ] || exit 0
if ! command -v sudo >/dev/null 2>&1; then
  echo 'sudo it is not installed'
elif output=$(sudo -n true 2>&1); then
  echo 'sudo works'
else
  printf 'sudo %s\n' "$(printf '%s\n' "$output" | tail -n 1)"
fi
