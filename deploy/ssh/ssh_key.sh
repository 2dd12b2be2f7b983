# Make the key with which this node logs in to others; an existing key stays as it is. Runs as its
# owner. Variables: home, comment.
# Needs: place
# shellcheck shell=sh disable=SC2154
umask 077
key=$home/.ssh/id_ed25519
fail() { echo "gpu-node: $key: $1" >&2; exit 1; }
# What a run left here that was killed, or whose node lost its power. Nodes may share a home: those of
# other nodes, which may be at it now, stay.
new=$home/.ssh/.id_ed25519.gpu-node-$(uname -n)-
for left in "$new"*[0-9]; do
  case ${left#"$new"} in (*[!0-9]*) continue ;; esac  # of a node whose name begins with this one's
  kill -0 "${left#"$new"}" 2>/dev/null || rm -f "$left" "$left.pub"
done
[ ! -e "$key" ] || exit 0
command -v ssh-keygen >/dev/null 2>&1 ||
  fail "no ssh-keygen is here: install openssh-client (openssh-clients on CentOS and Rocky)"
mkdir -p "$home/.ssh" || fail "its folder cannot be made"
new=$new$$
trap 'rm -f "$new" "$new.pub"' EXIT
rm -f "$new" "$new.pub"
output=$(ssh-keygen -q -t ed25519 -N '' -C "$comment" -f "$new" </dev/null 2>&1) ||
  fail "cannot be made: $output"
durable "$new" || fail "cannot be written (disk full?)"
# Nodes may share a home: the key of the first node that links it there is used.
ln "$new" "$key" 2>/dev/null || [ -e "$key" ] || renamed "$new" "$key" || fail "cannot be put in place"
rm -f "$new"
public=$(ssh-keygen -y -P '' -f "$key" </dev/null) || fail "cannot be read back"
# A public key without its private one is useless here, but may be needed elsewhere.
[ ! -e "$key.pub" ] || [ "$(cut -d' ' -f1,2 "$key.pub")" = "$(printf '%s' "$public" | cut -d' ' -f1,2)" ] ||
  { renamed "$key.pub" "$key.pub.before-gpu-node" &&
    echo "gpu-node: $key.pub belongs to no key here: it is $key.pub.before-gpu-node now"; } ||
  fail "its public half cannot be written"
[ -e "$key.pub" ] || { printf '%s\n' "$public" >"$new.pub" && place "$new.pub" "$key.pub"; } ||
  fail "its public half cannot be written"
chmod 644 "$key.pub"
! command -v restorecon >/dev/null 2>&1 || restorecon -R "$home/.ssh" >/dev/null 2>&1 || :
