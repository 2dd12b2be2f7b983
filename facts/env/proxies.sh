# Prints the lines of git, pip, yum, dnf, apt and start files that set a proxy on this machine itself
# (see proxy.awk), then `listens PORT` for each port that a program listens on for this machine.
set --
for f in /etc/environment /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc \
  /etc/gitconfig /etc/pip.conf /etc/xdg/pip/pip.conf /etc/yum.conf /etc/dnf/dnf.conf \
  /etc/yum.repos.d/*.repo /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  [ -f "$f" ] || continue
  # On newer systems it is a link to dnf.conf.
  [ "$f" != /etc/yum.conf ] || [ ! -L "$f" ] || continue
  [ -r "$f" ] || { echo "$f is closed to $(id -un)"; exit 1; }
  set -- "$@" "$f"
done
[ $# = 0 ] || awk "$gn_proxy" "$@" || exit 1
at_home "gn_proxy='$gn_proxy'
"'for f in .gitconfig .config/git/config .pip/pip.conf .config/pip/pip.conf .pam_environment \
  .bash_profile .bash_login .profile .bashrc; do
  [ -f "$home/$f" ] || continue
  printf "\001~/%s\n" "$f"
  head -c 262144 "$home/$f"
  echo
done | awk -v marked=1 "$gn_proxy"' || exit 1
awk '$4 == "0A" { split($2, at, ":") }
  $4 == "0A" && at[1] ~ /^(0+|......7F|0+01000000|0+FFFF0000......7F)$/ && !(at[2] in seen) {
    seen[at[2]]; print "listens " at[2] }' /proc/net/tcp*
