# Prints a row of each setting of the kernel: NAME, yes or no (whether it is there), its value, and what the last file that
# sets it gives it, with this file. A boot reads files in the order of their names, the first of each name; sysctl --system
# reads /etc/sysctl.conf after them.
# Variables: names (paths below /proc/sys).
cd /proc/sys || exit 1
set -- /dev/null
seen=/
for each in $names; do [ ! -r "$each" ] || [ ! -f "$each" ] || set -- "$@" "$each"; done
for each in /etc/sysctl.d/*.conf /run/sysctl.d/*.conf /usr/local/lib/sysctl.d/*.conf /usr/lib/sysctl.d/*.conf \
  /lib/sysctl.d/*.conf; do
  case $seen in (*"/${each##*/}/"*) continue ;; esac
  seen=$seen${each##*/}/
  [ ! -f "$each" ] || set -- "$@" "$each"
done
[ ! -f /etc/sysctl.conf ] || set -- "$@" /etc/sysctl.conf
awk -v names="$names" '
  FILENAME !~ /^\// { $1 = $1; now[FILENAME] = $0; next }
  /^[ \t]*[#;]/ || !(at = index($0, "=")) { next }
  {
    key = substr($0, 1, at - 1); gsub(/^[ \t]*-?[ \t]*|[ \t]+$/, "", key); gsub(/\./, "/", key)
    $0 = substr($0, at + 1, 200); $1 = $1
    base = FILENAME == "/etc/sysctl.conf" ? "~" : FILENAME; sub(/.*\//, "", base)
    if (base >= last[key]) { last[key] = base; boot[key] = $0; file[key] = FILENAME }
  }
  END {
    for (count = split(names, asked, " "); ++i <= count;) {
      key = name = asked[i]; gsub(/\//, ".", name)
      printf "%s\t%s\t%s\t%s\t%s\n", name, (key in now) ? "yes" : "no", now[key], boot[key], file[key]
    }
  }' "$@"
