# Prints what installs updates automatically, and those of the packages $@ that it skips. The patterns
# are tried here, with a time limit: one may run forever.
if command -v unattended-upgrade >/dev/null 2>&1; then
  settings=$(apt-config dump 2>/dev/null)
  printf '%s\n' "$settings" | sed -n \
    -e '/^APT::Periodic::Enable "0"/s/.*/off/p' \
    -e 's/^APT::Periodic::Unattended-Upgrade "\([1-9]\|always\).*/by unattended-upgrades/p'
  patterns=$(printf '%s\n' "$settings" |
    sed -n 's/^Unattended-Upgrade::Package-Blacklist:: "\(.*\)";/\1/p' | head -c 65536)
  if [ -n "$patterns" ]; then
    printf '%s\n' "$patterns" | sed 's/^/pattern /'
    limited 3 /usr/bin/python3 -I -c "$spared" "$patterns" "$@"
    if [ "$code" = 0 ]; then printf '%s\n' "$output"; else echo "untried $code"; fi
  fi
  apt-mark showhold 2>/dev/null | sed 's/^/held /'
fi
enabled() {
  find /etc/systemd/system -type l -name "$1" 2>/dev/null | grep -q .
}
applies() { grep -Eqs '^[[:space:]]*apply_updates[[:space:]]*=[[:space:]]*(yes|true|1|on)' "$1"; }
if enabled yum-cron.service && applies /etc/yum/yum-cron.conf; then echo 'by yum-cron'; fi
if enabled dnf-automatic-install.timer ||
  { enabled 'dnf*-automatic.timer' && applies /etc/dnf/automatic.conf; }; then
  echo 'by dnf-automatic'
fi
awk '/^[ \t]*exclude(pkgs)?[ \t]*=/ {
  sub(/^[^=]*=/, "")
  count = split($0, globs, /[, \t]+/)
  for (i = 1; i <= count; i++) if (globs[i] != "") print "excluded " globs[i] }' \
  /etc/yum.conf /etc/dnf/dnf.conf 2>/dev/null
exit 0
