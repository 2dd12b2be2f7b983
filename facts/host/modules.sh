# Prints a row of each module of the kernel: NAME, yes or no (whether the running kernel has it), loaded or nothing, loaded
# where a boot loads it, with the file that says so. One that is part of the kernel is loaded.
# Variables: names.
loaded=' '
for each in $names; do [ ! -d "/sys/module/$each" ] || loaded="$loaded$each "; done
set -- /dev/null
for each in "/lib/modules/$(uname -r)/modules.dep" "/lib/modules/$(uname -r)/modules.builtin" /etc/modules \
  /etc/modules-load.d/*.conf /run/modules-load.d/*.conf /usr/local/lib/modules-load.d/*.conf /usr/lib/modules-load.d/*.conf; do
  [ ! -r "$each" ] || set -- "$@" "$each"
done
awk -v names="$names" -v loaded="$loaded" '
  /^[ \t]*[#;]/ { next }
  { name = $1; sub(/.*\//, "", name); sub(/\.ko.*/, "", name); gsub(/-/, "_", name) }
  FILENAME ~ /\/modules\.(dep|builtin)$/ { there[name] }
  FILENAME ~ /\/modules\.builtin$/ { loaded = loaded name " " }
  NF && FILENAME !~ /\/modules\.dep$/ { file[name] = FILENAME }
  END {
    for (count = split(names, asked, " "); ++i <= count;) {
      name = asked[i]; now = index(loaded, " " name " ") ? "loaded" : ""
      printf "%s\t%s\t%s\t%s\t%s\n", name, (now != "" || name in there) ? "yes" : "no", now, (name in file) ? "loaded" : "", file[name]
    }
  }' "$@"
