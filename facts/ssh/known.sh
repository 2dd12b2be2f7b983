set -f
newline='
'
# known_in FILE NAME ...: prints the keys of names in a known_hosts file. One awk reads a file that
# has plain names; hashes and patterns are for ssh-keygen.
known_in() {
  file=$1
  shift
  awk -v asked="$*" '
    BEGIN { asks = split(asked, names, " "); for (i = 1; i <= asks; i++) wanted[names[i]] }
    /^[ \t]*([#@]|$)/ || NF < 3 { next }
    tolower($1) != $1 || $1 ~ /[|*?!]/ { odd = 1; exit }
    {
      count = split($1, hosts, ",")
      for (i = 1; i <= count; i++) if ((hosts[i] in wanted) && !((hosts[i], NR) in seen)) {
        seen[hosts[i], NR]
        keys[hosts[i]] = keys[hosts[i]] "known " hosts[i] " " $2 " " $3 "\n"
      }
    }
    END {
      if (odd || tolower(asked) != asked) exit 1
      for (i = 1; i <= asks; i++) printf "%s", keys[names[i]]
    }' "$file" 2>/dev/null && return
  for each; do
    ssh-keygen -F "$each" -f "$file" 2>/dev/null | awk -v each="$each" '!/^[#@]/ && NF > 2 {
      print "known " each " " $2 " " $3 }'
  done
}
# Nodes for which ssh reads the same files are looked up together.
look_up() {
  IFS=$newline
  for file in $reads; do
    IFS=' '
    # shellcheck disable=SC2086 # into words
    [ ! -f "$file" ] || [ ! -r "$file" ] || known_in "$file" $together
    IFS=$newline
  done
}
reads='' together=''
while read -r node names; do
  [ -n "$node" ] || continue
  settings=$(client "$node")
  own=
  IFS=$newline
  for line in ${settings:-reads $home/@users_known_hosts@$newline"reads @known_hosts@"}; do
    case $line in
      'reads '*) own=$own${line#reads }$newline ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
  [ -z "$together" ] || [ "$own" = "$reads" ] || { look_up; together=''; }
  reads=$own together="${together:+$together }$names"
  IFS=' '
done <<END
$asked
END
look_up
unset IFS
