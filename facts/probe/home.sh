# Sets $home as sshd and ssh find it: the variable HOME may have any value.
name=$(id -un) || exit 1
entry=$(getent passwd "$name" 2>/dev/null || 
  name=$name awk -F: '$1 == ENVIRON["name"]' /etc/passwd)
home=$(printf '%s\n' "$entry" | awk -F: '{ print $6; exit }')
[ -n "$home" ] || { echo "$name has no home"; exit 1; }
