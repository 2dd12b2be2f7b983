file=$home/.ssh/authorized_keys
[ -e "$file" ] || exit 0
users_files "$file" || exit 1
managed_block <"$file"
# The keys of other lines, of the kind that nodes have: their options are for sshd to judge.
awk -v begin='@begin@' -v end='@end@' '
  $0 == begin { inside = 1 }
  $0 == end { inside = 0 }
  inside || /^[ \t]*#/ { next }
  { for (i = 1; i < NF; i++) if ($i == "ssh-ed25519" && $(i + 1) ~ /^AAAA/ && seen++ < 1000) {
      print "key " $i " " $(i + 1); next } }' "$file"
