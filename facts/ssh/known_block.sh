[ ! -r @known_hosts@ ] || managed_block <@known_hosts@ | sed 's/^/block /'
