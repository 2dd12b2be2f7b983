environment_places() {
  printf 'environment\t%s\n' "$1"
  if [ -e "$1" ]; then
    places "$1" "$1/bin/python3" "$1/pyvenv.cfg" "$1/conda-meta/history"
  else
    above "$1"
  fi
}
