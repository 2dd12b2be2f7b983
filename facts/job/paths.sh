# What is at each path for the training user: `path<tab>PATH<tab>KIND<tab>ACCESS<tab>FREE`, of what is
# missing the access and the free bytes of the next folder above. Then its place. The paths are those
# of $@, behind $1 and as many DeepSpeed configurations, which may name folders for offload.
newline='
'
# offload CONFIGURATION: prints the folders that it names; a line of an answer is one line.
offload() {
  place "$1"
  [ ! -f "$at" ] || [ ! -r "$at" ] || head -c @most@ <"$at" |
    sed -n 's/.*"nvme_path"[^"]*"\(\/[^"]*\)".*/\1/p' | sed '/[[:cntrl:]]/d'
}
left=$1 folders=
shift
while [ "$left" -gt 0 ]; do
  folders=$folders$(offload "$1")$newline
  shift
  left=$((left - 1))
done
while IFS= read -r each; do
  [ -z "$each" ] || set -- "$@" "$each"
done <<END
$(printf '%s' "$folders" | grep . | head -n 8)
END
for path; do
  place "$path"
  kind=other
  if [ -d "$at" ]; then kind=directory
  elif [ -f "$at" ]; then kind='file'
  elif [ ! -e "$at" ]; then kind=missing
  fi
  there=$at
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
