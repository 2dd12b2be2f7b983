set -f
newline='
'
while read -r node names; do
  [ -n "$node" ] || continue
  settings=$(client "$node")
  IFS=$newline
  for line in ${settings:-reads $home/@users_known_hosts@$newline"reads @known_hosts@"}; do
    IFS=' '
    case $line in
      'reads '*) file=${line#reads } ;;
      *) printf '%s\n' "$line"; continue ;;
    esac
    [ -f "$file" ] && [ -r "$file" ] || continue
    for each in $names; do
      ssh-keygen -F "$each" -f "$file" 2>/dev/null | awk -v each="$each" '!/^[#@]/ && NF > 2 {
        print "known " each " " $2 " " $3 }'
    done
  done
  IFS=' '
done <<END
$asked
END
unset IFS
