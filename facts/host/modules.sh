# Prints which modules are loaded (`loaded NAME`), where the running kernel has them (`FILE:/NAME.ko`), and which a file
# loads at each boot (`boot NAME`).
# Variables: names, keys (their pattern in a file, where _ may be -).
for each in $names; do [ ! -d "/sys/module/$each" ] || echo "loaded $each"; done
cd "/lib/modules/$(uname -r)" 2>/dev/null && grep -soHE "/($keys)\.ko" modules.builtin modules.dep
grep -shE "^[[:space:]]*($keys)[[:space:]]*$" /etc/modules /etc/modules-load.d/*.conf /run/modules-load.d/*.conf \
  /usr/local/lib/modules-load.d/*.conf /usr/lib/modules-load.d/*.conf /lib/modules-load.d/*.conf | sed 's/^/boot /'
:
