# In a container the kernel log is that of the whole machine, with the processes of others.
[ "$(readlink /proc/self/ns/pid)" = 'pid:[@space@]' ] || { echo container; exit; }
# The ring loses its beginning: without the first seconds of the boot it may have lost a line.
limited 5 sh -c '{ dmesg 2>&1 || echo "gn denied"; } | awk '\''
  NR == 1 { first = $0 }
  /Killed process [0-9]+/ { kept[++count] = $0 }
  { last[NR % 2] = $0 }
  $0 == "gn denied" { print "denied " last[(NR + 1) % 2]; denied = 1; exit }
  END {
    if (denied) exit
    sub(/^\[ */, "", first)
    print "whole " (first ~ /^[0-4]\.[0-9]+\]/ ? "yes" : "no")
    print "count " count + 0
    for (i = count > @most@ ? count - @most@ + 1 : 1; i <= count; i++) print "kill " substr(kept[i], 1, 400)
  }'\'
[ "$code" = 0 ] || { echo "dmesg ended with $code"; exit 1; }
case $output in
  denied*) grep -q '^oom_kill ' /proc/vmstat || { echo "${output#denied }"; exit 1; } ;;
esac
printf '%s\n' "$output"
