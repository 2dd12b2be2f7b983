# Run sh as the training user or another one, with a time limit: the user's own processes may stop.
# Variables: user (empty: who runs this), as_user (sh that defines it: facts/probe/training_user.py).
# shellcheck shell=sh disable=SC2154
quoted() { printf '%s\n' "$1" | sed -e "s/'/'\\\\''/g" -e "1s/^/'/" -e "\$s/\$/'/"; }
# as_user_within SECONDS SH [FILTER]: SH has the caller's stdin; the caller runs FILTER, sh that
# reads the output, with the same limit. Neither inherits the lock of this run (9).
as_user_within() {
  limit="timeout -s KILL $1"
  timeout --version >/dev/null 2>&1 || limit=
  $limit sh -c "user=\$2
$as_user
as_user \"\$1\"${3:+ | $3}" sh "$2" "${user-}" 9>&-
}
