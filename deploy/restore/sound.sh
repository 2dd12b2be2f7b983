# Whether a record of a run is as root has written it: no other user can have changed it.
# Needs: writers closed
# shellcheck shell=sh disable=SC2034,SC2154

# sound TOP PATH: PATH is a regular file below the folder TOP, with no link on its way from there; each folder
# down to it is as `trusted` wants it, and a record (no copy, which has the mode of its file) has root alone
# as its writer. It changes nothing. Else it sets `why`.
sound() {
  why=''
  if [ ! -e "$2" ]; then
    why="$2 is missing"
  elif [ ! -f "$2" ]; then
    why="$2 is not a regular file"
  elif trusted "$1/." && sound_top=$real && trusted "$2"; then
    [ "$real" = "$sound_top${2#"$1"}" ] || why="$2 is a link, or there is one on its way"
    case $2 in (*/manifest | */also)
      writers "$(ls -ldn "$2")"
      [ -O "$2" ] && [ -z "$writers" ] || why="users other than root may write in $2"
    esac
  fi
  [ -z "$why" ]
}
