# Prints name, status and version of the packages in $@. rpm is asked only where it has a database.
if [ -s /var/lib/dpkg/status ] && command -v dpkg-query >/dev/null 2>&1; then
  dpkg-query -W -f '${Package} ${db:Status-Abbrev} ${Version}\n' -- "$@" 2>/dev/null ||
    [ $? -eq 1 ] || exit 1  # 1: dpkg has never heard of one
  exit 0
fi
for db in /var/lib/rpm /usr/lib/sysimage/rpm; do
  [ -e "$db/Packages" ] || [ -e "$db/Packages.db" ] || [ -e "$db/rpmdb.sqlite" ] || continue
  for name; do
    rpm -q -- "$name" >/dev/null 2>&1 || continue
    rpm -q --qf '%{NAME} ii %{VERSION}-%{RELEASE}\n' -- "$name"
  done
  break
done
