# Prints @begin@, then the bytes of $file as hex and `whole`, or `absent`, or a reason and `failed`.
printf '\n%s\n' '@begin@'
most=@most@
if [ ! -e "$file" ] && [ -L "$file" ]; then
  printf '%s\n' "it is a link to $(readlink "$file"), which leads to no file; next: remove the link, or correct it"
  echo failed
elif [ ! -e "$file" ]; then
  echo absent
elif [ ! -f "$file" ]; then
  echo 'it is not a regular file'
  echo failed
elif [ "$(head -c @too_many@ <"$file" | wc -c)" -gt "$most" ]; then
  echo 'it is larger than @most_mib@ MiB'
  echo failed
else
  od -An -v -tx1 <"$file" 2>&1 && echo whole || echo failed
fi
