[ -d "$folder" ] || exit 0
[ -r "$folder" ] && [ -x "$folder" ] || { echo "$folder is closed"; exit 1; }
for each in "$folder"/*/about; do
  [ -f "$each" ] || continue
  { echo "${each%/about}"; head -c 4096 "$each"; } | tr '\n' '\t'
  echo
done
