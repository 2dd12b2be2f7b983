# A Debian or Ubuntu server straight from its installer: rpm and dnf are not there.
rm -f /usr/bin/rpm* /usr/bin/dnf* /usr/bin/yum
rm -rf /etc/dnf /etc/rpm /usr/lib/rpm
