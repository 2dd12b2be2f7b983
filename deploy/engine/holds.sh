# Note which holds are ours, to distinguish them from an administrator's in a later run.
# Variables: note (the file: PACKAGE VERSION RUN a line), run (this run's name).
# Given: note
# shellcheck shell=sh disable=SC2154,SC2015
# note_holds PACKAGE VERSION...: before they are held, so that no hold of ours is without a note
note_holds() {
  mkdir -p "${note%/*}" && : >>"$note" || fail "$note cannot be written"
  noted=' '
  pairs=
  while [ "$#" -gt 1 ]; do
    noted="$noted$1 "
    # A hold that was noted by an earlier run keeps that run's name.
    pairs="$pairs$(awk -v name="$1" -v version="$2" -v run="$run" '
      $1 == name && $2 == version { run = $3 }
      END { print name, version, run }' "$note")
"
    shift 2
  done
  {
    printf '%s' "$pairs"
    awk -v noted="$noted" 'NF == 3 && !index(noted, " " $1 " ")' "$note"
  } | sort -u >"$note.new" && [ -s "$note.new" ] || fail "$note cannot be written"
  if cmp -s "$note.new" "$note"; then rm -f "$note.new"; return; fi
  place "$note.new" "$note" || fail "$note cannot be written"
}
