# What the names of $@, and of the hostfile, mean here: `name<tab>NAME<tab>ADDRESS ...`; nothing where it
# means nothing, ? where no answer came.
place "${hostfile:-/}"
listed=
[ ! -f "$at" ] || [ ! -r "$at" ] ||
  listed=$(head -c @most@ "$at" | sed 's/#.*//' | awk '{ print $1 }' |
    grep -E '^[A-Za-z0-9._-]+$' | head -n @names@)
seen=' '
for name in "$@" $listed; do
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
