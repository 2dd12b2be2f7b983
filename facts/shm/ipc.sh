# Whether logind removes the segments of a user who logs out (RemoveIPC= in logind.conf(5)): what
# the files decide, when logind started, and whose logout counts. Prints lines separated by tabs:
# `user NAME UID LINGER`, `started SECONDS`, `compiled VALUE`, and for each file that sets it, in the
# order in which they are read, `set FILE LINE SECONDS VALUE`. `absent`: logind does not run here. It
# makes seats when it starts; so does systemd-tmpfiles, also in an image where no systemd runs.
[ -d "${root-}/run/systemd/system" ] && [ -d "${root-}/run/systemd/seats" ] || { echo absent; exit 0; }
user=${user:-${gn_me:-$(id -un)}}
linger=no
[ ! -e "${root-}/var/lib/systemd/linger/$user" ] || linger=yes
printf 'user\t%s\t%s\t%s\n' "$user" "$(id -u "$user" 2>/dev/null)" "$linger"
started=
for folder in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
  { read -r pid <"${root-}$folder/system.slice/systemd-logind.service/cgroup.procs"; } 2>/dev/null || continue
  # The name in field 2 may have blanks; the start is field 22, in ticks since the boot.
  started=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | awk '{ printf "%d", $20 / 100 }')
  break
done
awk -v started="$started" '$1 == "btime" { printf "started\t%d\n", $2 + started }' /proc/stat
# A shipped logind.conf has the compiled values as comments.
for file in /usr/lib/systemd/logind.conf /lib/systemd/logind.conf /etc/systemd/logind.conf; do
  value=$(sed -n 's/^#RemoveIPC=//p' "${root-}$file" 2>/dev/null | head -n 1)
  [ -z "$value" ] || { printf 'compiled\t%s\n' "$value"; break; }
done
values() {
  [ -e "$1" ] || return
  changed=$(stat -L -c %Y "$1" 2>/dev/null)
  awk -v f="${1#"${root-}"}" -v changed="$changed" '
    { sub(/\r$/, "") }
    /^[ \t]*\[/ { login = $0 ~ /^[ \t]*\[Login\][ \t]*$/ }
    login && /^[ \t]*RemoveIPC[ \t]*=/ {
      value = $0
      sub(/^[^=]*=[ \t]*/, "", value); sub(/[ \t]+$/, "", value); gsub(/\t/, " ", value)
      print "set\t" f "\t" NR "\t" changed "\t" substr(value, 1, 80)
    }' "$1" || exit 1
}
for top in /etc /run /usr/local/lib /usr/lib /lib; do
  [ ! -e "${root-}$top/systemd/logind.conf" ] || { values "${root-}$top/systemd/logind.conf"; break; }
done
# Of files with one name, the one in the first folder counts; a link to /dev/null sets nothing.
for top in /etc /run /usr/local/lib /usr/lib /lib; do
  for file in "${root-}$top"/systemd/logind.conf.d/*.conf; do
    [ ! -e "$file" ] && [ ! -L "$file" ] || printf '%s\t%s\n' "${file##*/}" "$file"
  done
done | awk -F '\t' '!seen[$1]++' | LC_ALL=C sort | while IFS='	' read -r _ file; do
  values "$file"
done
