# Run a script as the training user, who may be another than the one that logs in.
# Variables: user, as_user (sh that defines as_user), run (the script).
# shellcheck shell=sh disable=SC2154
set -u
eval "$as_user"
as_user "$run"
