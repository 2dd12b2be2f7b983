# Prints a row of each service: NAME, yes or no (whether it can be enabled), running or another state, enabled or another one.
# It prints nothing where systemd does not run. A service that runs once, and has, is running.
# Variables: names.
[ -d /run/systemd/system ] || exit 0
set --
for each in $names; do set -- "$@" "$each.service"; done
systemctl show -p LoadState -p UnitFileState -p ActiveState -p Type -p Result "$@" | awk -v names="$names" '
  BEGIN { RS = ""; FS = "\n"; split(names, asked, " ") }
  {
    split("", has)
    for (i = 1; i <= NF; i++) { at = index($i, "="); has[substr($i, 1, at - 1)] = substr($i, at + 1) }
    now = has["ActiveState"]; boot = has["UnitFileState"]
    if (now ":" has["Type"] ":" has["Result"] ~ /^(active|reloading|inactive:oneshot:success)/) now = "running"
    if (has["LoadState"] != "loaded") now = boot = has["LoadState"]
    printf "%s\t%s\t%s\t%s\t\n", asked[NR], (boot ~ /^(enabled|enabled-runtime|disabled)$/) ? "yes" : "no", now, boot
  }'
