set -f
# ssh would wait for what a pipe gives.
[ ! -e "$home/.ssh/config" ] || [ -f "$home/.ssh/config" ] ||
  { echo "$home/.ssh/config is not a regular file"; exit 1; }
newline='
'
# known_in FILE NAMES: prints the keys of names, with blanks between them, in a known_hosts file. One
# awk reads a file that has plain names; hashes and patterns are for ssh-keygen.
known_in() {
  file=$1
  awk -v asked="$2" '
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
  printf '%s\n' "$2" | tr ' ' '\n' | while IFS= read -r each; do
    ssh-keygen -F "$each" -f "$file" 2>/dev/null </dev/null | awk -v each="$each" '!/^[#@]/ && NF > 2 {
      print "known " each " " $2 " " $3 }'
  done
}
# Nodes for which ssh reads the same files are looked up together.
look_up() {
  IFS=$newline
  for file in $reads; do
    [ ! -f "$file" ] || [ ! -r "$file" ] || known_in "$file" "$together"
  done
  unset IFS
}
# read_of SETTINGS: prints the known_hosts files that ssh reads; without settings the usual ones.
read_of() {
  printf '%s\n' "${1:-$unknown}" | awk '/^reads / { print substr($0, 7) }'
}
unknown="reads $home/@users_known_hosts@${newline}reads @known_hosts@"
apart=$(apart_in 0 "$home/.ssh" "$home/.ssh/config"
  apart_in 0 /etc/ssh /etc/ssh/ssh_config)
# In front of each row: whether its node has settings of its own.
asked=$(printf '%s\n=\n%s\n' "$apart" "$asked" | awk '
  !rows && $0 == "=" { rows = 1; next }
  !rows { if ($1 == "host") own[$2]; next }
  NF { print ((tolower($1) in own) ? "own " : "same ") $0 }')
same=$(same_for_all "$(printf '%s\n' "$asked" | awk '$1 == "same" { print $2; exit }')")
printf '%s\n' "$same" | awk '/^client /'
usual=$(read_of "$same")
reads='' together=''
while read -r kind node names; do
  [ -n "$node" ] || continue
  own=$usual
  if [ "$kind" = own ] || [ -z "$same" ]; then
    settings=$(client "$node")
    [ -n "$settings" ] || printf 'unknown %s\n' "$node"
    printf '%s\n' "$settings" | awk '/^client /'
    own=$(read_of "$settings")
  fi
  [ -z "$together" ] || [ "$own" = "$reads" ] || { look_up; together=''; }
  reads=$own together="${together:+$together }$names"
done <<END
$asked
END
look_up
