# Lists files of the SSH user with a block of ours, where the training user is another account now:
# no step updates these blocks any more.
me=${gn_me:-$(id -un)} || exit 1
[ -n "$user" ] && [ "$user" != "$me" ] || exit 0
entry=$(getent passwd "$me" 2>/dev/null || grep -F "$me:" /etc/passwd |
  name=$me awk -F: '$1 == ENVIRON["name"]' | grep .) || exit 1
home=${entry%:*} home=${home##*:}
for f in "$home/.bashrc" "$home/.ssh/authorized_keys"; do
  [ ! -f "$f" ] || ! head -c 1048576 "$f" | grep -q '^# >>> gpu-node' || printf '%s\n' "$f"
done
