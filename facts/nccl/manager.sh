# Prints the package manager. A system with packages in dpkg belongs to apt, whatever else is
# installed.
[ -s /var/lib/dpkg/status ] && command -v apt-get >/dev/null 2>&1 && echo apt-get && exit 0
for manager in dnf yum; do
  command -v $manager >/dev/null 2>&1 && echo $manager && exit 0
done
echo none
