# What the names of $@, and of the hostfile, mean here: `name<tab>NAME<tab>ADDRESS ...`; nothing where it
# means nothing, ? where no answer came. A word that getent would read as an option is no name.
place "${hostfile:-/}"
listed=
[ ! -f "$at" ] || [ ! -r "$at" ] ||
  listed=$(head -c @most@ <"$at" | sed 's/#.*//' | awk '{ sub(/^[^@]*@/, "", $1); print $1 }' |
    grep -E '^[A-Za-z0-9._-]+$' | head -n @names@)
while IFS= read -r name; do
  set -- "$@" "$name"
done <<END
$listed
END
seen=' '
for name; do
  case $name in (*[!A-Za-z0-9._-]* | [!A-Za-z0-9]* | '') continue ;; esac
  case $seen in (*" $name "*) continue ;; esac
  seen="$seen$name "
  limited 3 getent ahosts "$name"
  case $code in
    (0) output=$(printf '%s\n' "$output" | awk '!seen[$1]++ { printf " %s", $1 }') ;;
    (2) output= ;;
    (*) output=' ?' ;;
  esac
  printf 'name\t%s\t%s\n' "$name" "${output# }"
done
