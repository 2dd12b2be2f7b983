# The free bytes of the file systems of some folders, or of the next folder above that exists:
# `PATH<tab>BYTES`. A file server that does not answer has no line.
limit=5
timeout --version >/dev/null 2>&1 || limit=
for path; do
  folder=$path
  while [ ! -d "$folder/" ] && [ -n "$folder" ]; do
    case $folder in (*/*) folder=${folder%/*} ;; (*) folder= ;; esac
  done
  free=$({ ${limit:+timeout -s KILL "$limit"} df -Pk "$folder/"; } 2>/dev/null |
    awk 'NR > 1 { kib = $4 } END { print kib }')
  case $free in (*[!0-9]* | '') ;; (*) printf '%s\t%s\n' "$path" "$((free * 1024))" ;; esac
done
