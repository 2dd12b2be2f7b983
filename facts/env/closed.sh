# Prints `closed<tab>ENVIRONMENT<tab>PLACE<tab>MODE OWNER` where the user who runs this cannot start the
# Python of an environment of $@, or read its torch.
for prefix; do
  place=
  if [ ! -x "$prefix/bin/python3" ] && [ ! -x "$prefix/bin/python" ]; then
    place=$(closed_at "$prefix/bin/python3")
    [ -n "$place" ] || place=$(closed_at "$prefix/bin/python")
  fi
  for folder in "$prefix"/lib "$prefix"/lib/python3* "$prefix"/lib/python3*/site-packages \
    "$prefix"/lib/python3*/site-packages/torch; do
    [ -n "$place" ] || [ ! -d "$folder" ] || [ -x "$folder" ] || place=$folder
  done
  for file in "$prefix"/lib/python3*/site-packages/torch/__init__.py; do
    [ -n "$place" ] || [ ! -f "$file" ] || [ -r "$file" ] || place=$file
  done
  [ -z "$place" ] || printf 'closed\t%s\t%s\t%s\n' "$prefix" "$place" "$(stat -L -c '%a %U' "$place")"
done
