# Lists the libnccl packages. Names may have suffixes: libnccl-devel, but also
# libnccl-rdma-sharp-plugin. rpm is asked only where it has a database: on Debian it would create
# one.
for db in /var/lib/rpm /usr/lib/sysimage/rpm; do
  [ -e "$db/Packages" ] || [ -e "$db/Packages.db" ] || [ -e "$db/rpmdb.sqlite" ] || continue
  rpm --dbpath "$db" -qa --qf 'rpm %{NAME} %{VERSION}-%{RELEASE} %{ARCH} -\n' 'libnccl*' || exit 1
  break
done
if command -v dpkg-query >/dev/null 2>&1; then
  dpkg-query -W -f 'deb ${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\n' 'libnccl*' \
    2>/dev/null || [ $? -eq 1 ] || exit 1  # 1: none matches
fi
