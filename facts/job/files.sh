# Files that a job reads, named by $1 ...: `file<tab>PATH<tab>STATUS`, and the lines behind a `=`. An
# accelerate configuration may name one of DeepSpeed.
most=@most@
show() {
  place "$1"
  status='read'
  if [ ! -e "$at" ]; then status=missing
  elif [ ! -f "$at" ]; then status='not a regular file'
  elif [ ! -r "$at" ]; then status="closed to $(id -un)"
  elif [ "$(head -c $((most + 1)) <"$at" | wc -c)" -gt "$most" ]; then status="more than $most bytes"
  fi
  printf 'file\t%s\t%s\n' "$1" "$status"
  [ "$status" = read ] || return 1
  tr -d '\000' <"$at" | sed 's/^/=/'
  # The last line may have no newline.
  echo
}
for path; do
  show "$path" || continue
  named=$(sed -n 's/^ *deepspeed_config_file: *["'\'']*\([^"'\'' ]*\).*/\1/p' <"$at" | head -n 1)
  case $named in ('' | none | null | *[[:cntrl:]]*) ;; (*) show "$named" || : ;; esac
done
