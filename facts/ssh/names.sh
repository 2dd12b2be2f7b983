# getent exits with 2 for an unknown name; after any other failure the answer is unknown (?).
PATH=$PATH:/usr/sbin:/sbin; export PATH
command -v getent >/dev/null 2>&1 || { echo "there is no getent here"; exit 1; }
resolve() {
  limited @seconds@ getent ahosts "$3"
  case $code in
    (0) output=$(printf '%s\n' "$output" | awk '!seen[$1]++ { printf " %s", $1 }') ;;
    (2) output= ;;
    (*) output=" ?" ;;
  esac
  printf '%s %s%s\n' "$1" "$2" "$output"
}
# One getent asks for all but IPv4 addresses, which mean themselves. The first line of each answer
# has the canonical name: where all answer, they are in the order of the questions; where some do
# not, an answer is that of the next name that is its canonical name. Others are asked alone.
set --
while read -r node address; do
  [ -n "$node" ] || continue
  set -- "$@" "$node"
  case $address in (*[!0-9.]*) set -- "$@" "$address" ;; esac
done <<END
$asked
END
limited @soon@ getent ahosts "$@"
# A resolver that answers is asked about few names at a time; else all of them wait at once.
at_once=200
case $code in (0 | 2) ;; (*) output='' at_once=2000 ;; esac
answers=$(printf '%s\n=\n%s\n' "$asked" "$output" | awk '
  !answers && $0 == "=" { answers = 1; next }
  !answers && NF > 1 {
    what[++asked] = "name " $1; name[asked] = tolower($1)
    if ($2 ~ /[^0-9.]/) { what[++asked] = "address " $1; name[asked] = tolower($2) }
    else print "address " $1 " " $2
  }
  !answers { next }
  NF > 2 { canonical[++count] = tolower($3); split("", seen) }
  !seen[$1]++ { found[count] = found[count] " " $1 }
  END {
    if (0 in found) count = 0
    for (i = j = 1; i <= count && j <= asked; j++)
      if (count == asked || canonical[i] == name[j])
        of[j] = found[i++]
    for (j = 1; j <= asked; j++) {
      if (i > count && j in of) print what[j] of[j]
      else print "alone " what[j] " " name[j]
    }
  }')
printf '%s\n' "$answers" | awk '!/^alone /'
printf '%s\n' "$answers" | awk '/^alone /' | {
  count=0
  while read -r _ kind node name; do
    resolve "$kind" "$node" "$name" &
    count=$((count + 1))
    [ $((count % at_once)) != 0 ] || wait
  done
  wait
}
printf '%s\n' "$asked" | sed '/ [^ ]*[^0-9A-Fa-f.: ][^ ]*$/s/ [^ ]*$/ -/' | routes_to |
  sed -n 's/^\([^ ]*\) .* src \([0-9A-Fa-f.:]*\).*/source \1 \2/p'
