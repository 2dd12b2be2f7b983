# Leave one complete NCCL wheel in a Python environment: all NCCL wheels own the same file. It runs
# as the account that by_owner.sh finds.
# Variables: prefix (the environment), keep (as pip is asked for it), remove (names, or empty),
# asked (what facts/nccl/on_node/environment.py says), pushed (the wheel, where the controller fetched it), or
# handed (in the environment: the same, of another account), hashes (lines for
# pip's requirements, or empty), insecure (yes: any index will do), supply (facts/nccl/on_node/supply.py).
# Needs: writers closed place sent lock proxy in_use no_answer noted environment_pip
# Disturbs: libraries
# Given: asked supply hashes insecure
# By: owner
# shellcheck shell=sh disable=SC2154,SC2012,SC2015
umask 022
last() { echo "$1" | grep -v '^[[:space:]]*$' | tail -n 1; }

ready
source=${handed:-$pushed}
# The replacement first: if it is not available, the installed wheels stay.
set -- "$keep"
[ -z "$hashes" ] || set -- --require-hashes -r "$work/hashes"
if [ -n "$source" ]; then
  # pip judges by a wheel's name. The controller has made sure that it is for this machine.
  wheel=$work/$(echo "${keep%%==*}" | tr - _)-${keep##*==}-py3-none-any.whl
  # A file of another account can only be copied.
  output=$({ [ -n "$pushed" ] && mv "$source" "$wheel" || cp "$source" "$wheel"; } 2>&1 && "$python" -I -B -c 'import sys, zipfile
sys.exit(zipfile.ZipFile(sys.argv[1]).testzip())' "$wheel" 2>&1 </dev/null) ||
    fail "the copy of $keep is not whole: $(last "$output"); nothing was changed: run again"
else
  proven download
  # Without -q, which hides the servers that pip asks.
  output=$(pip download --no-deps --only-binary=:all: -d "$work" "$@" 2>&1 </dev/null) ||
    fail "$(no_answer "$output")pip cannot get $keep: $(last "$output"); nothing was changed"
fi
# From here on pip needs no index, and no setting (user, target, prefix) may redirect it.
PIP_CONFIG_FILE=/dev/null PYTHONNOUSERSITE=1
export PIP_CONFIG_FILE PYTHONNOUSERSITE
unset PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_HASHES PIP_CONSTRAINT
# pip removes nothing without a RECORD: such metadata is removed first, and the file is written
# again below. With it goes what a killed pip has left.
# shellcheck disable=SC2086 # a package a word
output=$(remove_left unrecorded $remove "${keep%%==*}") || fail "cannot read what pip has left: $output; run again"
if [ -n "$remove" ]; then
  # shellcheck disable=SC2086 # a package a word
  output=$(pip uninstall -q -y $remove 2>&1 </dev/null) ||
    fail "pip cannot remove $remove: $(last "$output")"
fi
# pip would write through a link, into its target.
for library in "$prefix"/lib*/python*/site-packages/nvidia/nccl/lib/libnccl.so.2; do
  [ ! -L "$library" ] || rm -f "$library"
done
output=$(pip install -q --no-deps --only-binary=:all: --force-reinstall --no-index \
  --find-links "$work" "$@" 2>&1 </dev/null) || fail "pip cannot install $keep: $(last "$output"); run again"
output=$("$python" -I -B -c "$asked" whole "${keep%%==*}" 2>&1 >/dev/null </dev/null) ||
  fail "$(last "$output"); run again"
