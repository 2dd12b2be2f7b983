[ -d "$folder" ] || exit 0
[ -r "$folder" ] && [ -x "$folder" ] || { echo "$folder is closed"; exit 1; }
for each in "$folder"/*/undo; do
  [ ! -f "$each" ] || { head -c 20480 "${each%undo}about" | head -n 1; echo; }
done
