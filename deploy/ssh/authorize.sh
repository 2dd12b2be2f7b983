# Authorise a public key: a line at the end of authorized_keys, unless the key already has one. Runs
# as its owner. Prints, at the end, `changed`, `there` or, where the key has options and nothing was
# changed, `restricted`: a line without them would undo what its owner wants. Variables: home, line
# (kind, key and comment), backups (root's: the folder of this run, with its manifest; or empty: beside
# the file).
# Needs: writers closed place record noted
# shellcheck shell=sh disable=SC2154
umask 077
folder=$home/.ssh
file=$folder/authorized_keys
fail() { echo "gpu-node: $file: $1" >&2; exit 1; }
is_ours() { [ "$(stat -L -c %u "$1")" = "$(id -u)" ]; }
done=

[ -d "$home" ] || fail "its home is missing; nothing was changed"
mkdir -p "$folder" || fail "its folder cannot be made; nothing was changed"
real=$(readlink -f "$file") || fail "cannot be resolved; nothing was changed"
for each in "$folder" "${real%/*}" "$real"; do
  [ ! -e "$each" ] || is_ours "$each" || fail "$each is another user's; nothing was changed"
done
if [ -e "$real" ]; then
  [ -f "$real" ] && [ -r "$real" ] || fail "cannot be read; nothing was changed"
  [ "$(stat -c %s "$real")" -le 16777216 ] || fail "is larger than 16 MiB; nothing was changed"
fi

has_line() {
  awk -v line="$line" 'BEGIN { split(line, key, " ") }
    { sub(/\r$/, "") }
    $1 == key[1] && $2 == key[2] { found = 1 }
    END { exit !found }' "$1"
}

# Values of options are in double quotes; \" does not end them.
has_options() {
  awk -v line="$line" 'BEGIN { split(line, key, " ") }
    { sub(/\r$/, ""); gsub(/"([^"\\]|\\.)*"/, "") }
    $1 !~ /^#/ && $2 == key[1] && $3 == key[2] { found = 1 }
    END { exit !found }' "$1"
}

if [ -e "$real" ] && has_line "$real"; then
  :
elif [ -e "$real" ] && has_options "$real"; then
  done=restricted
else
  new=${real%/*}/.${real##*/}.gpu-node
  trap 'rm -f "$new"' EXIT
  # An existing file, from a killed run or another program, is never written to.
  rm -f "$new"
  (set -C; : >"$new") 2>/dev/null || fail "cannot write beside it; nothing was changed"
  before=absent
  if [ -e "$real" ]; then
    before=$(noted_sum "$real")
    cp -p "$real" "$new" || fail "cannot write beside it (disk full?); nothing was changed"
    [ -z "$(tail -c 1 "$new")" ] || echo >>"$new" || fail "cannot be written; nothing was changed"
  fi
  printf '%s\n' "$line" >>"$new" || fail "cannot be written (disk full?); nothing was changed"
  durable "$new" && has_line "$new" || fail "was not written whole (disk full?); nothing was changed"
  saved=$real.before-gpu-node
  if [ -n "$backups" ]; then
    kept "$file" "$new"
  else
    [ ! -e "$real" ] || [ -e "$saved" ] || { cp -p "$real" "$saved" && durable "$saved"; } || { rm -f "$saved"; false; }
  fi || fail "cannot be backed up; nothing was changed"
  [ ! -e "$real" ] || [ "$(noted_sum "$real")" = "$before" ] || fail "changed while we worked; left as it is, run again"
  renamed "$new" "$real" || fail "$(why_not_renamed "$real"); nothing was changed"
  trap - EXIT
  done=changed
fi

# sshd refuses keys that others could have written.
for each in "$home" "$folder" "$real"; do
  is_ours "$each" || continue
  case $(ls -ldn "$each") in
    (?????w* | ????????w*)
      chmod go-w "$each" || fail "$each cannot be closed to others: sshd refuses the key"
      done=changed
      ;;
  esac
done
! command -v restorecon >/dev/null 2>&1 || restorecon -R "$folder" >/dev/null 2>&1 || :
echo "${done:-there}"
