# Run a script as the training user, who may not be the user that logs in.
# Variables: those of as_user_within.sh, run (the script).
# Needs: as_user_within
# shellcheck shell=sh disable=SC2154
as_user_within 300 "$run"
