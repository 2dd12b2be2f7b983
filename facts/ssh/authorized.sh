file=$home/.ssh/authorized_keys
[ -e "$file" ] || exit 0
users_file "$file" || exit 1
users_text "$file" | managed_block
