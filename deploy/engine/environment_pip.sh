# pip in a Python environment, as the account that may change it.
# Variables: prefix (the environment), asked (facts/nccl/on_node/environment.py), supply
# (facts/nccl/on_node/supply.py), hashes (lines for pip's requirements, or empty), insecure (yes: any index will do).
# shellcheck shell=sh disable=SC2154,SC2012,SC2015
fail() { echo "gpu-node: $prefix: $1" >&2; exit 1; }

# ready: sets $python, its pip and $work, a folder in which pip leaves its temporary files, too
ready() {
  PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
  export PIP_ROOT_USER_ACTION PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT
  python=$prefix/bin/python3
  [ -x "$python" ] || python=$prefix/bin/python
  [ -x "$python" ] || fail "it has no Python; nothing was changed"
  find_pip
  tried=$(mktemp "$prefix/.gpu-node.XXXXXX" 2>/dev/null) && rm -f "$tried" || fail "$(id -un) may not \
write there; its owner is $(ls -ld "$prefix/" | awk '{ print $3 }'): look at its modes, and whether it \
is mounted read-only; nothing was changed"
  work=$(mktemp -d /var/tmp/gpu-node-pip.$$.XXXXXX) && { [ -z "$hashes" ] || echo "$hashes" >"$work/hashes"; } ||
    fail "no room in /var/tmp; nothing was changed"
  TMPDIR=$work; export TMPDIR
}
# proven COMMAND: fail where others can change what this command of pip uses
proven() {
  [ "$insecure" = yes ] || [ -n "$hashes" ] ||
    output=$("$pips" -I -B -c "$supply" "$1" ${into:+"--python=$into"} 2>&1 >/dev/null </dev/null) ||
    fail "others could change what pip installs: $(echo "$output" | tail -n 1); use https and \
folders that no other user can change, or set supply: {hashes: ...} or \
{insecure_index: true} in the inventory; nothing was changed"
}
# find_pip: sets $pips to the Python whose pip installs into the environment of $python: that, or its base
# where it has none, as those of uv; then $into is $python. pip runs itself there without -I.
find_pip() {
  pips=$python into=
  ! "$python" -I -B -c 'import pip' 2>/dev/null || return 0
  unset PYTHONPATH PYTHONHOME
  PYTHONNOUSERSITE=1; export PYTHONNOUSERSITE
  into=$python
  pips=$("$python" -I -B -c 'import sys
print("%s/bin/python%d.%d" % (sys.base_prefix, sys.version_info[0], sys.version_info[1]))' | tail -n 1)
}
pip() { "$pips" -I -B -m pip ${into:+"--python=$into"} "$@"; }

# What a killed pip has left there: all that its start files print reaches this shell as well, so a line counts
# only behind a word that is new in each run, and only if it names such a file of this environment.
# remove_left WHAT NAME...: asks for what is left of these packages, and removes it; else it prints the reason.
remove_left() {
  left_what=$1
  shift
  left_mark=left-${work##*.}:
  "$python" -I -B -c "$asked" "$left_what" "$left_mark" "$@" >"$work/left" 2>"$work/errors" </dev/null ||
    { tail -n 1 "$work/errors"; return 1; }
  left_top=$(cd -P -- "$prefix/" && pwd -P) || return 1
  while IFS= read -r left_line; do
    case $left_line in ("$left_mark"/*) (remove_one "${left_line#"$left_mark"}") ;; esac
  done <"$work/left"
}
# In its folder without links, so that what is checked is what is removed.
remove_one() {
  cd -P -- "${1%/*}/" 2>/dev/null || return 0
  left_here=$(pwd -P)
  case $left_here/ in ("$left_top"/*) ;; (*) return 0 ;; esac
  case ${left_here##*/}/${1##*/} in
    (*/?*-info | */'~'*) rm -rf -- "./${1##*/}" ;;
    (?*-info/?*.tmp) rm -f -- "./${1##*/}" ;;
  esac
}
