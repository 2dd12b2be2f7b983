# CentOS 6 and older have no os-release; CentOS has its minor release in a separate file.
os=/etc/os-release
[ -r "$os" ] || os=/usr/lib/os-release
value() { sed -n "s/^$1=//p" "$os" 2>/dev/null | tail -n 1 | tr -d "\"'"; }
name=$(value PRETTY_NAME)
[ ! -r /etc/redhat-release ] || name=$(head -n 1 /etc/redhat-release)
printf 'id %s\nversion %s\nname %s\n' "$(value ID)" "$(value VERSION_ID)" "$name"
printf 'machine %s\n' "$(uname -m)"
