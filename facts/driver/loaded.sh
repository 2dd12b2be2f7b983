# Prints the loaded module and the lines that prevent it from loading. The open module has that word
# in its version. `modprobe -c` prints what is in force, with the kernel's command line, but no file
# names: the files are searched for the line. busybox's modprobe has no -c: there every file counts.
# Debian names the module nvidia-current.
PATH=$PATH:/usr/sbin:/sbin; export PATH
[ -d /sys/module ] || { echo '/sys is not mounted'; exit 1; }
printf 'nvidia %s\n' "$(cat /sys/module/nvidia/version 2>/dev/null)"
[ ! -d /sys/module/nouveau ] || echo nouveau
! grep -qs 'Open Kernel Module' /proc/driver/nvidia/version || echo open
# Whether persistence mode is enabled at boot; without systemd there is no unit to examine.
if command -v systemctl >/dev/null 2>&1; then
  turns_on='nvidia-smi.*(-pm|persistence-mode)[ =]*(1|ENABLED)'
  in_force() { grep -Ehs "$@" | grep -v -e --no-persistence-mode | grep -q .; }
  # The command of the daemon is in its unit, or in the last file that changes it: Ubuntu's unit
  # starts it with persistence mode off.
  daemon=
  for f in /lib/systemd/system/nvidia-persistenced.service \
    /usr/lib/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service.d/*.conf; do
    command=$(sed -n 's/^ExecStart=\(.\)/\1/p' "$f" 2>/dev/null | tail -n 1)
    daemon=${command:-$daemon}
  done
  case $daemon in *--no-persistence-mode*) daemon= ;; esac
  # A unit that wants it, or udev, starts the daemon.
  set -- /etc/systemd/system/*.wants/nvidia-persistenced.service \
    /usr/lib/systemd/system/*.wants/nvidia-persistenced.service \
    /lib/systemd/system/*.wants/nvidia-persistenced.service
  started=
  for f; do [ ! -e "$f" ] || started=yes; done
  set -- /etc/udev/rules.d/*.rules /usr/lib/udev/rules.d/*.rules /lib/udev/rules.d/*.rules
  ! grep -Eqs '^[^#]*nvidia-persistenced' "$@" || started=yes
  if [ -n "$started" ] && [ -n "$daemon" ] ||
    in_force "^Exec[A-Za-z]*=.*$turns_on" /etc/systemd/system/*.wants/*.service \
      /usr/lib/systemd/system/*.wants/*.service /lib/systemd/system/*.wants/*.service ||
    in_force "^[^#]*$turns_on" "$@" ||
    in_force "^[^#]*(nvidia-persistenced|$turns_on)" /etc/rc.local /etc/rc.d/rc.local \
      /etc/rc[235].d/S* /etc/crontab /etc/cron.d/* /var/spool/cron/root \
      /var/spool/cron/crontabs/root
  then
    echo 'persistence kept'
  else
    echo 'persistence lost'
  fi
fi
set --
for f in /proc/cmdline /etc/modprobe.conf /etc/modprobe.d/*.conf /run/modprobe.d/*.conf \
  /usr/local/lib/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf /lib/modprobe.d/*.conf; do
  [ ! -r "$f" ] || set -- "$@" "$f"
done
modprobe -c 2>/dev/null | sed '/^# End of configuration/q' | awk '
  function named(name) {
    gsub(/-/, "_", name)
    return name ~ /^nvidia(_current)?(_open)?$/ ? name : ""
  }
  function note(text) {
    order[++count] = text
    if (is_config) in_force[text] = 1
    else if (!(text in places)) places[text] = FILENAME
  }
  FILENAME == "/proc/cmdline" {
    for (i = 1; i <= NF; i++) {
      if ($i !~ /^(modprobe\.blacklist|module_blacklist)=/) continue
      value = $i
      sub(/^[^=]*=/, "", value)
      parts = split(value, names, ",")
      for (j = 1; j <= parts; j++) if (named(names[j]) != "") {
        if ($i ~ /^modprobe/) by_line["blacklist " named(names[j])] = 1
        print "barred\t" FILENAME "\t" $i
      }
    }
    next
  }
  is_config { has_config = 1 }
  (name = named($2)) == "" { next }
  $1 == "blacklist" { note("blacklist " name) }
  $1 == "alias" && $3 == "off" { note("alias " name " off") }
  $1 == "install" && $3 ~ /^((\/usr)?\/bin\/)?(true|false|:)$/ && (NF == 3 || $4 ~ /^#/) {
    note("install " name " " $3)
  }
  END {
    for (i = 1; i <= count; i++) {
      text = order[i]
      if (shown[text]++ || (has_config && !(text in in_force))) continue
      if (!(text in places) && (text in by_line)) continue
      print "barred\t" (text in places ? places[text] : "modprobe -c") "\t" text
    }
  }' is_config=1 - is_config=0 "$@"
