# Docker and podman mount the file into a container: nothing can be renamed to it.
awk '$5 == "@hosts@" { print "mount"; exit }' /proc/self/mountinfo
[ ! -r @hosts@ ] || managed_block <@hosts@ | sed 's/^/block /'
# Lines outside of our block that name one of the nodes, with their numbers.
awk -v begin="$begin" -v end="$end" -v asked="$asked" '
BEGIN { count = split(asked, names, " "); for (i = 1; i <= count; i++) wanted[names[i]] = 1 }
$0 == begin { inside = 1 }
$0 == end { inside = 0 }
!inside { line = $0; sub(/#.*/, "", line); parts = split(line, words, " ")
  for (i = 2; i <= parts; i++) if (words[i] in wanted) { print "line " NR " " $0; next } }
' @hosts@
# Prints cloud-init's settings in the order in which it reads them: the last one counts.
for file in /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg \
  /var/lib/cloud/instance/cloud-config.txt; do
  [ ! -r "$file" ] || awk -v file="$file" '/^manage_etc_hosts[ \t]*:/ { value = $0
    sub(/^[^:]*:[ \t]*/, "", value); sub(/[ \t]*(#.*)?$/, "", value)
    print "managed " NR " " file "\t" value }' "$file"
done
