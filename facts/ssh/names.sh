# getent exits with 2 for an unknown name; after any other failure the answer is unknown (?).
PATH=$PATH:/usr/sbin:/sbin; export PATH
command -v getent >/dev/null 2>&1 || { echo "there is no getent here"; exit 1; }
resolve() {
  limited @seconds@ getent ahosts "$3"
  case $code in
    0) output=$(printf '%s\n' "$output" | awk '!seen[$1]++ { printf " %s", $1 }') ;;
    2) output= ;;
    *) output=" ?" ;;
  esac
  printf '%s %s%s\n' "$1" "$2" "$output"
}
ask() {
  resolve name "$1" "$1"
  resolve address "$1" "$2"
}
# One getent asks for all: the first line of each answer has the canonical name. Where one has no
# answer, or not soon, there is one for each.
set --
while read -r node address; do
  [ -z "$node" ] || set -- "$@" "$node" "$address"
done <<END
$asked
END
limited @soon@ getent ahosts "$@"
all=
[ "$code" != 0 ] || all=$(printf '%s\n=\n%s\n' "$asked" "$output" | awk '
  !answers && $0 == "=" { answers = 1; next }
  !answers { if (NF > 1) { what[++asked] = "name " $1; what[++asked] = "address " $1 }; next }
  NF > 2 { count++; split("", seen) }
  !seen[$1]++ { found[count] = found[count] " " $1 }
  END {
    if (count != asked || (0 in found)) exit 1
    for (i = 1; i <= count; i++) print what[i] found[i]
  }') || all=
if [ -n "$all" ]; then
  printf '%s\n' "$all"
else
  while read -r node address; do
    [ -z "$node" ] || ask "$node" "$address" &
  done <<END
$asked
END
  wait
fi
printf '%s\n' "$asked" | sed '/ [^ ]*[^0-9A-Fa-f.: ][^ ]*$/s/ [^ ]*$/ -/' | routes_to |
  sed -n 's/^\([^ ]*\) .* src \([0-9A-Fa-f.:]*\).*/source \1 \2/p'
