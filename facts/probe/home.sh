# Sets $home as sshd and ssh find it: the variable HOME may have any value.
name=$(id -un) || exit 1
entry=$(getent passwd "$name" 2>/dev/null || 
  name=$name awk -F: '$1 == ENVIRON["name"]' /etc/passwd)
IFS=: read -r _ _ _ _ _ home _ <<END
$entry
END
[ -n "$home" ] || { echo "$name has no home"; exit 1; }
