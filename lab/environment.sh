#!/bin/sh
# Makes the virtual environment, unless another run has made it by now.
#
# environment.sh PYTHON MARK FILE...   MARK is there, and newer than the files, where it is complete
set -eu
python=$1 mark=$2
shift 2
[ ! -e "$mark" ] || [ -n "$(find "$@" -newer "$mark")" ] || exit 0
pip() { .venv/bin/python -m pip "$@" -qq --disable-pip-version-check; }
fail() {
    echo "set-up: $*" >&2
    exit 1
}
echo "set-up: making .venv" >&2
rm -rf .venv
"$python" -m venv .venv || fail "$python cannot make .venv"
pip install --require-hashes -r requirements.lock ||
    fail "pip cannot install requirements.lock; is the package index reachable?"
pip install --no-deps --no-build-isolation -e . ||
    fail "pip cannot install this folder into .venv"
touch "$mark"
