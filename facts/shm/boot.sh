# Prints NUMBER LINE of the lines of /etc/fstab for /dev/shm. Where the fifth or sixth field is no
# number, as after a blank within the options, mount ignores the line ("parse error").
[ ! -e /etc/fstab ] || awk '
  $1 !~ /^#/ && $2 ~ "^/dev/shm/?$" && ($5 $6) !~ /[^0-9-]/ { print NR " " $0 }
' /etc/fstab || exit 1
# Prints STATE (runs, waits, ignored), PATH, line number and line, separated by tabs. A unit runs at
# boot if a target wants it. Of files with the same name, the one in the first folder counts.
set --
for top in /etc /run /usr/local/lib /usr/lib; do
  [ ! -d "$top/systemd/system" ] || set -- "$@" "$top/systemd/system"
done
[ -L /lib ] || [ ! -d /lib/systemd/system ] || set -- "$@" /lib/systemd/system
is_hidden() {
  for folder; do
    case $file in ("$folder"/*) return 1 ;; esac
    [ ! -e "$folder/$below" ] && [ ! -L "$folder/$below" ] || return 0
  done
}
fate() {
  name=${below%%/*}
  name=${name%.d}
  state=waits
  for folder; do
    [ "$(readlink "$folder/$name")" != /dev/null ] || { echo waits; return; }
    for link in "$folder"/*.wants/"$name" "$folder"/*.requires/"$name"; do
      [ ! -L "$link" ] || state=runs
    done
  done
  echo "$state"
}
# lines STATE KEY: prints the lines of $file; one that ends with a backslash continues on the next.
lines() {
  awk -v state="$1" -v key="$2" -v f="$file" '
    text == "" && /^[ \t]*([#;]|$)/ { next }
    { if (text == "") first = NR; text = text $0; sub(/\r$/, "", text) }
    sub(/\\$/, " ", text) { next }
    { line = text; text = "" }
    line !~ key || line !~ /(^|[^A-Za-z_-])size=/ { next }
    state != "ignored" && (line !~ /\/dev\/shm\/?([^A-Za-z0-9._\/-]|$)/ || line !~ /mount/) { next }
    { gsub(/[^ -~]+/, " ", line); print state "\t" f "\t" first "\t" substr(line, 1, 300) }
  ' "$file"
}
# busybox runs `-exec ... +` only outside of parentheses.
[ $# = 0 ] || find -L "$@" -maxdepth 2 -type f ! -path '*.wants/*' ! -path '*.requires/*' \
  \( -name '*.service' -o -path '*.service.d/*.conf' \
  -o -name dev-shm.mount -o -path '*/dev-shm.mount.d/*.conf' \) \
  -exec grep -ls -e /dev/shm -e '^[[:blank:]]*Options[[:blank:]]*=' {} + 2>/dev/null |
while IFS= read -r file; do
  below=${file#*/systemd/system/}
  is_hidden "$@" && continue
  case $below in
    (dev-shm.mount*) lines ignored '^[ \t]*Options[ \t]*=' ;;
    (*) lines "$(fate "$@")" '^[ \t]*Exec[A-Za-z]*[ \t]*=' ;;
  esac
done
for file in /etc/rc.local /etc/rc.d/rc.local; do
  [ ! -f "$file" ] || [ -L "$file" ] || [ ! -x "$file" ] || lines runs .
done
