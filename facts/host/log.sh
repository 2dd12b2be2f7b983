# In a container the kernel log is that of the whole machine, with the processes of others.
[ "$(readlink /proc/self/ns/pid)" = 'pid:[@space@]' ] || { echo container; exit; }
# The ring loses its beginning: without the first seconds of the boot it may have lost a line.
{ dmesg 2>&1 || echo "gn denied"; } | awk '
  NR == 1 { first = $0 }
  /Killed process [0-9]+/ { kept[++count] = $0 }
  match($0, /(NVRM: X|nvidia-nvswitch[0-9]+: SX)id \([^)]*\): [0-9]+/) {
    key = substr($0, RSTART, RLENGTH)
    if (!(key in times) && kinds < @kinds@) keys[++kinds] = key
    times[key]++; newest[key] = $0
  }
  match($0, /nfs: server [^ ]+ /) {
    key = substr($0, RSTART + 12, RLENGTH - 13)
    if (/ not responding/) hung[key]
    else if (/ OK$/) delete hung[key]
  }
  $0 == "gn denied" { denied = 1; exit }
  { last = $0 }
  END {
    if (denied) {
      while ((getline line <"/proc/vmstat") > 0) counts += line ~ /^oom_kill /
      print (counts ? "denied " : "") last
      exit counts ? 0 : 1
    }
    sub(/^\[ */, "", first)
    print "whole " (first ~ /^[0-4]\.[0-9]+\]/ ? "yes" : "no")
    print "count " count + 0
    for (i = count > @most@ ? count - @most@ + 1 : 1; i <= count; i++) {
      gsub(/[^ -~]/, "?", kept[i]); print "kill " substr(kept[i], 1, 400)
    }
    for (i = 1; i <= kinds; i++) {
      gsub(/[^ -~]/, "?", newest[keys[i]])
      print "xid " times[keys[i]], substr(newest[keys[i]], 1, 400)
    }
    for (key in hung) if (key ~ /^[A-Za-z0-9_.:%-]+$/) print "hung " key
  }'
