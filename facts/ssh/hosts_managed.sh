# Prints cloud-init's settings in the order in which it reads them: the last one counts.
for file in /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg \
  /var/lib/cloud/instance/cloud-config.txt; do
  [ ! -r "$file" ] || awk -v file="$file" '/^manage_etc_hosts[ \t]*:/ { value = $0
    sub(/^[^:]*:[ \t]*/, "", value); sub(/[ \t]*(#.*)?$/, "", value)
    print "managed " NR " " file "\t" value }' "$file"
done
