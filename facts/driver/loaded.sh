# Prints the loaded module and the lines that prevent it from loading. The open module has that word
# in its version. `modprobe -c` prints what is in force, with the kernel's command line, but no file
# names: the files are searched for the line. busybox's modprobe has no -c: there every file counts.
# Debian names the module nvidia-current, nvidia-current-open or nvidia-tesla-470.
PATH=$PATH:/usr/sbin:/sbin; export PATH
[ -d /sys/module ] || { echo '/sys is not mounted'; exit 1; }
version=
{ read -r version </sys/module/nvidia/version; } 2>/dev/null
printf 'nvidia %s\n' "$version"
[ ! -d /sys/module/nouveau ] || echo nouveau
[ ! -d /sys/module/nvidia_peermem ] && [ ! -d /sys/module/nv_peer_mem ] || echo peermem
! grep -qs 'Open Kernel Module' /proc/driver/nvidia/version || echo open
# Whether persistence mode is enabled at boot; without systemd there is no unit to examine.
if command -v systemctl >/dev/null 2>&1; then
  # A unit that wants it, or udev, starts the daemon.
  started=
  for f in /etc/systemd/system/*.wants/nvidia-persistenced.service \
    /usr/lib/systemd/system/*.wants/nvidia-persistenced.service \
    /lib/systemd/system/*.wants/nvidia-persistenced.service; do
    [ ! -e "$f" ] || started=yes
  done
  set -- kind=none
  for f in kind=daemon /lib/systemd/system/nvidia-persistenced.service \
    /usr/lib/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service.d/*.conf \
    kind=unit /etc/systemd/system/*.wants/*.service /usr/lib/systemd/system/*.wants/*.service \
    /lib/systemd/system/*.wants/*.service \
    kind=udev /etc/udev/rules.d/*.rules /usr/lib/udev/rules.d/*.rules /lib/udev/rules.d/*.rules \
    kind=start /etc/rc.local /etc/rc.d/rc.local /etc/rc[235].d/S* /etc/crontab /etc/cron.d/* \
    /var/spool/cron/root /var/spool/cron/crontabs/root; do
    case $f in
      (kind=*) set -- "$@" "$f" ;;
      (*) [ ! -f "$f" ] || [ ! -r "$f" ] || set -- "$@" "$f" ;;
    esac
  done
  # The command of the daemon is in its unit, or in the last file that changes it: Ubuntu's unit
  # starts it with persistence mode off.
  awk -v started="$started" '
    BEGIN { turns_on = "nvidia-smi.*(-pm|persistence-mode)[ =]*(1|ENABLED)" }
    kind == "daemon" && /^ExecStart=./ { daemon = $0 }
    kind == "udev" && /^[^#]*nvidia-persistenced/ { started = "yes" }
    /--no-persistence-mode/ { next }
    kind == "unit" && $0 ~ ("^Exec[A-Za-z]*=.*" turns_on) { kept = 1 }
    kind == "udev" && $0 ~ ("^[^#]*" turns_on) { kept = 1 }
    kind == "start" && $0 ~ ("^[^#]*(nvidia-persistenced|" turns_on ")") { kept = 1 }
    END {
      if (started != "" && daemon != "" && daemon !~ /--no-persistence-mode/) kept = 1
      print "persistence " (kept ? "kept" : "lost")
    }' "$@" </dev/null
fi
set --
for f in /proc/cmdline /etc/modprobe.conf /etc/modprobe.d/*.conf /run/modprobe.d/*.conf \
  /usr/local/lib/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf /lib/modprobe.d/*.conf; do
  [ ! -r "$f" ] || set -- "$@" "$f"
done
modprobe -c 2>/dev/null | sed '/^# End of configuration/q' | awk '
  function named(name) {
    gsub(/-/, "_", name)
    if (name ~ /_(modeset|drm|uvm|peermem)$/) return ""
    return name ~ /^nvidia(_(current|tesla|legacy)[a-z0-9_]*|_open)?$/ ? name : ""
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
