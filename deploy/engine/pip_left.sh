# What a killed pip has left in a Python environment: all that its start files print reaches this shell as well,
# so a line counts only behind a word that is new in each run, and only if it names such a file of this environment.
# Variables: prefix (the environment), python (its program), asked (facts/nccl/on_node/environment.py), work (a
# folder that mktemp has made).
# shellcheck shell=sh disable=SC2154

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
