# client NODE: prints what ssh does for a node, and in lines with `reads` the known_hosts files that
# it reads. It needs $home and $gn_hide.
client() {
  ssh -G "$1" 2>/dev/null </dev/null | awk -v node="$1" -v home="$home" "$gn_hide"'
    $1 ~ /^(@keywords@)$/ {
      print "client " node " " $1 " " shown(substr($0, length($1) + 2)) }
    $1 ~ /^(user|global)knownhostsfile$/ { for (i = 2; i <= NF; i++) {
      file = $i; if (file ~ /^~\//) file = home substr(file, 2)
      print "reads " file } }'
}
