# Remove what the controller sent for this run, and the run's own folders, however it ends.
# Variables: sent (the file, in a folder for it alone, or empty), pushed (its copy, or empty), box and
# work (which scripts may set). It stands before all else: whatever refuses to begin ends here, too.
# shellcheck shell=sh disable=SC2154
box='' work=''
trap 'rm -rf ${sent:+"${sent%/*}"} ${box:+"$box"} ${pushed:+"$pushed"} ${work:+"$work"}' EXIT
trap 'exit 1' HUP INT TERM
