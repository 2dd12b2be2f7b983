# Give one directory its mode and owner, and make it where it is missing; nothing below it changes.
# Variables: path, mode, owner, group; an empty one is left as it is.
# shellcheck shell=sh disable=SC2154
mkdir -p -- "$path" || exit 1
# Owner first: a change of it takes setgid away. Five digits: with fewer GNU chmod leaves it there.
[ -z "$owner" ] || chown -- "$owner" "$path" || exit 1
[ -z "$group" ] || chgrp -- "$group" "$path" || exit 1
[ -z "$mode" ] || chmod -- "00$mode" "$path"
