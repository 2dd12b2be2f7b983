# Prints `not-writable<tab>FOLDER<tab>missing|closed` where the user who runs this cannot write.
for each in "$home" /tmp; do
  if [ ! -d "$each" ]; then printf 'not-writable\t%s\tmissing\n' "$each"
  elif [ ! -w "$each" ] || [ ! -x "$each" ]; then printf 'not-writable\t%s\tclosed\n' "$each"
  fi
done
