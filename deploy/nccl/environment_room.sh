# Create the folder for a Python environment that is copied from another node: `tree` in a folder
# beside its place, which no other user can enter meanwhile.
# Variables: path, partial (the folder beside it), machine (what its programs run on; may be empty),
# trains (who copies it, or empty).
# Needs: writers lock copier receiver
# shellcheck shell=sh disable=SC2154,SC2015
umask 022
fail() { no "$1; nothing was changed"; }
[ ! -e "$path" ] && [ ! -L "$path" ] || fail "it was created meanwhile"
here=$(uname -m)
[ -z "$machine" ] || [ "$machine" = "$here" ] ||
  fail "the environment is for $machine, and this node is $here: create it here manually"
receiver "$trains" "$partial"
way "${partial%/*}/"
if [ "$mine" != 0 ] || [ -n "$theirs$open" ]; then
  [ "$by" != root ] || fail "users other than root may write in ${open:-$at}, and could lead root \
elsewhere: chmod go-w ${open:-$at}, or let its owner train (launcher_user)"
  output=$(as "$by" "partial=$(quoted "$partial")"'; umask 022
    mkdir -p -- "${partial%/*}" && umask 077 || exit 1
    [ ! -L "$partial" ] && { [ ! -e "$partial" ] || [ -O "$partial" ]; } || { echo "$partial is not ours"; exit 1; }
    mkdir -p -- "$partial/tree" && chmod 700 "$partial" &&
      find "$partial" -mindepth 1 -maxdepth 1 ! -name tree -exec rm -rf -- {} +' 2>&1) ||
    fail "$partial cannot be made as $by: $output; make ${partial%/*} for $by"
  exit 0
fi
entered "$partial" ||
  fail "$partial, which an earlier run may have left, is not root's: rm -rf $partial ($why)"
chmod 700 . || fail "$partial cannot be closed"
find . -mindepth 1 -maxdepth 1 ! -name tree -exec rm -rf -- {} +
# If it belonged to another user, it could lead elsewhere, or not be writable.
[ "$(stat -c %U tree 2>/dev/null)" = "$by" ] && [ -d tree ] && [ ! -L tree ] || {
  rm -rf -- tree && mkdir -m 700 tree && chown -h -- "$by:" tree || fail "$partial/tree cannot be made"
}
[ "$by" = root ] || chmod 711 .
