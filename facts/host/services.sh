# Prints the names of services, and what systemd shows of each, in this order; nothing where it does not run.
# Variables: names.
[ -d /run/systemd/system ] || exit 0
echo "$names"
set --
for each in $names; do set -- "$@" "$each.service"; done
systemctl show -p LoadState -p UnitFileState -p ActiveState -p Type -p Result "$@"
