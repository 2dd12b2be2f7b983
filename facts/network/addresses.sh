# In the form that iproute2 4.11 (CentOS 7) and busybox have too.
PATH=$PATH:/usr/sbin:/sbin; export PATH
command -v ip >/dev/null 2>&1 ||
  { echo 'ip is not installed: its package is iproute2, or iproute'; exit 1; }
ip -o addr show
