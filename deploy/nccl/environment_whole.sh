# Move a copied Python environment to its place at once, and check that its Python runs there, as
# the environment's owner.
# Variables: path, partial (`tree` in it is what was copied), backups.
# Needs: writers closed place lock copier noted
# shellcheck shell=sh disable=SC2016,SC2154,SC2015
[ ! -e "$path" ] && [ ! -L "$path" ] || no "it was created meanwhile; the copy is in $partial"
way "$partial/"
by=$(id -un) owner=$by
[ "$mine" != 0 ] || {
  # In a user's folder the user may have moved another tree there: its owner decides nothing.
  if [ -n "$theirs" ]; then
    by=$(account "$theirs" 1) || no "$at belongs to uid $theirs, which is no account here"
    owner=$by
  else
    [ -z "$open" ] || no "users other than root may write in $open; the copy is in $partial"
    owner=$(stat -c %U -- "$partial/tree") || no "nothing was copied"
  fi
}
note copy "$owner" "$path"
# Without it, what root moves to a name in a sticky folder may end behind a link.
only=-T
mv --help 2>&1 | grep -q -e ' -T' || {
  only=
  case $(ls -ldn "${path%/*}/") in
    (????????w*) no "cannot be put there safely: others may write in ${path%/*}, and mv has no -T" ;;
  esac
}
names="path=$(quoted "$path") partial=$(quoted "$partial")
alone() { mv ${only:-} -- \"\$@\"; }
only=$only
"
# Before coreutils 8.24 (CentOS 7) there is no -f: a crash may leave empty files there.
as "$by" "$names"'! command -v timeout >/dev/null 2>&1 || timeout 60 sync -f "$partial/tree" || :' >/dev/null
# Its folder stays until the end: in a shared one, others could take the name that it gives up.
as "$by" "$names"'alone "$partial/tree" "$path"' ||
  no "the copy in $partial cannot be put there"
output=$(as "$owner" "$names"'
  python=$path/bin/python3
  [ -x "$python" ] || python=$path/bin/python
  limit="timeout -s KILL 60"
  timeout --version >/dev/null 2>&1 || limit=
  exec env -i PATH=/usr/bin:/bin LC_ALL=C $limit "$python" -I -B -c ""' 2>&1 </dev/null) && { as "$by" "$names"'rmdir -- "$partial"' >/dev/null; exit 0; }
code=$?
# If this is interrupted, an incomplete copy must not look like an environment.
as "$by" "$names"'alone "$path" "$partial/tree"' >/dev/null
as "$owner" "$names"'rm -rf -- "$partial/tree"' 1800 >/dev/null
as "$by" "$names"'rmdir -- "$partial/tree" 2>/dev/null; rmdir -- "$partial"' >/dev/null
no "its Python does not run on this node (exit $code): ${output:-no output}; an environment of venv needs its base Python here; the copy was removed"
