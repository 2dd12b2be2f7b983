# Prints the lines of ssh's files that set one of the keywords, for any host.
set +f
for file in "$home/.ssh/config" @ssh_config@ @drop_in_folder@/*.conf; do
  [ ! -f "$file" ] || head -c 1048576 "$file" | awk -v file="$file" "$gn_hide"'
    { line = $0; sub(/^[ \t]+/, "", line)
    word = tolower(line); sub(/[ \t=].*/, "", word) }
    word ~ /^(@keywords@)$/ {
      print "setting " NR " " word " " file "\t" shown(line) }'
done
