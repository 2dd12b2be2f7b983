# Set mode and owner of one directory, and create it if missing; nothing below it changes. In a
# user's folder that user does it: a link could lead root to any folder.
# Variables: path, mode, owner, group; an empty one is left as it is.
# Needs: writers copier
# shellcheck shell=sh disable=SC2154
umask 022
case $path in (/ | */) path=${path%/} ;; esac
folder=${path%/*} links=0
# A link to it is followed if only root can change the link.
while way "$folder/" && [ -z "$theirs$open" ] && [ -L "$path" ] && ! shared "$at"; do
  links=$((links + 1))
  [ "$links" -lt 40 ] || no "has too many links on its way"
  to=$(readlink -- "$path") || no "is a link that cannot be read"
  case $to in (/*) path=$to ;; (*) path=$folder/$to ;; esac
  path=${path%/} folder=${path%/*}
done
if [ -z "$theirs$open" ]; then
  if shared "$at"; then
    top=$at
    entered "$path" "$(account "$owner" 3)" || no "$why, and others than root may write in $top; nothing \
was changed: look at it, then remove it or give it to root (chown -h root: $at)"
    path=.
  else
    mkdir -p -- "$path" || exit 1
  fi
  # Owner first: a change of the owner removes setgid. Five digits: with fewer, GNU chmod keeps it.
  [ -z "$owner" ] || chown -h -- "$owner" "$path" || exit 1
  [ -z "$group" ] || chgrp -h -- "$group" "$path" || exit 1
  [ -z "$mode" ] || chmod -- "00$mode" "$path"
  exit
fi
[ -n "$theirs" ] || no "others than root may write in $open, and could lead root elsewhere; nothing \
was changed: chmod go-w $open, or make it manually"
who=$(account "$theirs" 1) || no "uid $theirs can change a folder above it, and is not an account here; \
nothing was changed: give it to one"
[ -z "$owner" ] || [ "$(account "$owner" 1)" = "$who" ] || no "is in a folder of $who, who could lead \
root elsewhere: only $who can be its owner; nothing was changed: make it manually"
at=$(quoted "$path")
as "$who" "umask 022; mkdir -p -- $at && { [ -z '$group' ] || chgrp -- $(quoted "$group") $at; } &&
{ [ -z '$mode' ] || chmod -- 00$mode $at; }" </dev/null 9>&- ||
  no "cannot be made so as $who, whose folder it is in; make it manually"
