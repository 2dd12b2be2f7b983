#!/bin/sh
# Makes the virtual environment, or adds what the tests need to it, unless another run has done so.
#
# environment.sh PYTHON MARK FILE...   MARK is there, and newer than the files, where it is complete.
#                                      The first file is the lock to install.
set -eu
python=$1 mark=$2 lock=$3
shift 2
[ ! -e "$mark" ] || [ -n "$(find "$@" -newer "$mark")" ] || exit 0
pip() { .venv/bin/python -m pip "$@" -qq --disable-pip-version-check; }
fail() {
    echo "set-up: $*" >&2
    exit 1
}
# uv takes seconds; pip, which takes a minute, where uv cannot.
quickly() {
    pip install --require-hashes -r lab/uv.txt &&
        .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
}
add() {
    quickly 2>/dev/null || pip install --require-hashes -r "$lock" ||
        fail "pip cannot install $lock; is the package index reachable?"
}
case $lock in
*-dev.lock)
    echo "set-up: adding the tools of the tests to .venv" >&2
    add
    ;;
*)
    echo "set-up: making .venv" >&2
    rm -rf .venv
    "$python" -m venv .venv || fail "$python cannot make .venv"
    add
    pip install --no-deps --no-build-isolation -e . ||
        fail "pip cannot install this folder into .venv"
    ;;
esac
touch "$mark"
