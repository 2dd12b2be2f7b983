# What is at each path of $@ for the training user: `path<tab>PATH<tab>KIND<tab>ACCESS<tab>FREE`, of
# what is missing the access and the free bytes of the next folder above. Then its place. DeepSpeed's
# configurations in $configs may name a folder for offload.
IFS='
'
# shellcheck disable=SC2046,SC2086 # a path a line
set -- "$@" $(cd "$folder" 2>/dev/null &&
  sed -n 's/.*"nvme_path"[^"]*"\(\/[^"]*\)".*/\1/p' $configs 2>/dev/null | head -n 8)
unset IFS
for path; do
  place "$path"
  kind=other
  if [ -d "$at" ]; then kind=directory
  elif [ -f "$at" ]; then kind='file'
  elif [ ! -e "$at" ]; then kind=missing
  fi
  there=$at
  # A word without a slash, as below a folder that is not absolute, has nothing above it.
  while [ ! -e "$there" ]; do
    case ${there%/*} in ('' | "$there") break ;; esac
    there=${there%/*}
  done
  [ -e "$there" ] || there=/
  access=
  [ ! -r "$there" ] || access=r
  [ ! -w "$there" ] || access=${access}w
  [ ! -x "$there" ] || access=${access}x
  limited 5 df -Pk "$there" 2>/dev/null
  free=$(printf '%s\n' "$output" | awk 'NR > 1 { kib = $4 } END { print kib }')
  case $free in (*[!0-9]* | '') free= ;; (*) free=$((free * 1024)) ;; esac
  printf 'path\t%s\t%s\t%s\t%s\n' "$path" "$kind" "$access" "$free"
  places "$there" | asked=$path awk -F '\t' -v OFS='\t' '
    { $1 = "place\t" ENVIRON["asked"]; print }'
done
