# Debian's pam_limits spares root (see its limits.conf(5)); a newer module reads nr_open itself.
[ ! -e /etc/debian_version ] || echo spares-root
for module in /lib*/security /lib/*/security /usr/lib*/security /usr/lib/*/security; do
  [ -r "$module/pam_limits.so" ] || continue
  ! grep -q nr_open "$module/pam_limits.so" || echo clamps-nofile
  [ ! -f @stack@ ] || [ -L @stack@ ] || echo takes-line
  break
done
[ -e @stack@ ] || echo no-stack
[ ! -d /etc/pam.d ] || grep -l '^[^#]*pam_limits' /etc/pam.d/* || :
[ -r /etc/ssh/sshd_config ] || exit 0
for f in /etc/ssh/sshd_config.d/*.conf /etc/ssh/sshd_config; do
  [ ! -r "$f" ] || awk 'tolower($1) == "usepam" { print "UsePAM " tolower($2) }' "$f"
done
