for each; do
  if [ -e "$each" ]; then places "$each"; else above "$each"; fi
done
