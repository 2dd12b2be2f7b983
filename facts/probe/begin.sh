# Prints an empty line to stderr every 10 s: it shows that the probe is still at work. The sleep
# ends with the probe: a later step would take it for a job of the SSH user.
( trap 'kill "$!" 2>/dev/null; exit' TERM
while sleep 10 >/dev/null 2>&1 & wait "$!"; do echo >&2 || exit; done ) </dev/null >/dev/null &
# shellcheck disable=SC2034 # for the end of the probe
gn_beat=$! gn_top=$$; export gn_top
