[ ! -r @hosts@ ] || managed_block <@hosts@ | sed 's/^/block /'
# Lines outside of our block that name one of the nodes, with their numbers.
awk -v begin="$begin" -v end="$end" -v asked="$asked" '
BEGIN { count = split(asked, names, " "); for (i = 1; i <= count; i++) wanted[names[i]] = 1 }
$0 == begin { inside = 1 }
$0 == end { inside = 0 }
!inside { line = $0; sub(/#.*/, "", line); parts = split(line, words, " ")
  for (i = 2; i <= parts; i++) if (words[i] in wanted) { print "line " NR " " $0; next } }
' @hosts@
