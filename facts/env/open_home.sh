# Ends with a reason where $home cannot be entered.
# shellcheck disable=SC2010 # the error of ls
if [ -d "$home" ]; then [ -x "$home" ]
else ! ls -d "$home" 2>&1 | grep -q 'ermission denied'; fi ||
  { echo "$home is closed to $(id -un)"; exit 1; }
