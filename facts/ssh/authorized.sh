file=$home/.ssh/authorized_keys
[ -e "$file" ] || exit 0
users_files "$file" || exit 1
managed_block <"$file"
