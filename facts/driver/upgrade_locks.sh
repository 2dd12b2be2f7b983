# Prints the lines of versionlock: dnf lists an upgrade that they prevent. Comes after lock_files.sh,
# which finds the list.
# shellcheck disable=SC2154
if [ "$on" = yes ] && [ -r "$list" ]; then
  grep -v '^ *#' "$list" | grep . | head -n 500 | sed 's/^ */lock /'
fi
exit 0
