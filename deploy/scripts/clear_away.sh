# Take the file away that the controller pushed for this run, and the run's own folder, however it ends.
# Variables: pushed (the file; empty, or not set), work (which a script may set). It stands before all
# else: whatever refuses to begin ends here, too.
# shellcheck shell=sh disable=SC2154
work=
trap 'rm -rf ${pushed:+"$pushed"} ${work:+"$work"}' EXIT
trap 'exit 1' HUP INT TERM
