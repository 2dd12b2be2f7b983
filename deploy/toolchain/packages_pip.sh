# Install packages of a Python environment at exactly the pinned versions, and change no other one.
# It runs as the account that by_owner.sh finds.
# Variables: prefix (the environment), pins (as pip is asked for them, with blanks between),
# asked (what facts/nccl/on_node/environment.py says), hashes (lines for pip's requirements, or empty),
# insecure (yes: any index will do), supply (facts/nccl/on_node/supply.py).
# Needs: writers closed place sent lock proxy in_use no_answer noted environment_pip
# Disturbs: libraries
# Given: asked supply hashes insecure
# By: owner
# shellcheck shell=sh disable=SC2154,SC2012,SC2015
set -f
umask 022
# A package in the home of the account that runs this does not belong to the environment.
PYTHONNOUSERSITE=1 PIP_USER=no
export PYTHONNOUSERSITE PIP_USER
# The first error of pip is the reason, with the packages that conflict; advice follows it.
reason() {
  echo "$1" | awk '
    /^ERROR: / && !first { first = $0 }
    /^The conflict is caused by:/ { telling = 1; next }
    telling && /^$/ { telling = 0 }
    telling { sub(/^ */, ""); conflict = conflict "; " $0 }
    /[^ ]/ { line = $0 }
    END { print (first ? first : line) conflict }'
}

ready
proven install
pip list --format=freeze >"$work/listed" 2>"$work/errors" </dev/null ||
  fail "pip cannot list what is there: $(tail -n 1 "$work/errors"); nothing was changed"
# pip compares names without regard to case, -, _ and .
awk -v pins="$pins" '
  function plain(name) { gsub(/[-_.]+/, "-", name); return tolower(name) }
  BEGIN { count = split(pins, asked, " ")
    for (i = 1; i <= count; i++) { sub(/==.*/, "", asked[i]); changes[plain(asked[i])] = 1 } }
  /^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!+_-]*$/ {
    name = $0; sub(/==.*/, "", name); if (!(plain(name) in changes)) print }
' "$work/listed" >"$work/held.txt" || fail "no room in /var/tmp; nothing was changed"
# pip regards what a killed run has half installed as complete: install it again.
# shellcheck disable=SC2086 # a pin a word
output=$(remove_left halves $pins) || fail "cannot read what pip has left: $output; nothing was changed"
# The list in which environment.py finds what this run begins.
mark=$prefix/.gpu-node-pip
# After a power failure, too, the next run knows what was half installed.
(echo "$pins" >"$mark" && durable "$mark") 2>/dev/null || fail "no room for $mark; nothing was changed"
# pip finds and downloads everything before it removes anything.
# shellcheck disable=SC2086 # a pin a word
set -- $pins
[ -z "$hashes" ] || set -- --require-hashes -r "$work/hashes"
output=$(pip install --only-binary=:all: -c "$work/held.txt" "$@" 2>&1 </dev/null)
code=$?
[ "$code" -lt 128 ] || fail "pip was killed by signal $((code - 128)); run again"
all_durable "$prefix"
rm -f "$mark"
[ "$code" -eq 0 ] ||
  fail "$(no_answer "$output")pip cannot install $pins with all other packages kept at their versions: $(reason "$output"); run again"
