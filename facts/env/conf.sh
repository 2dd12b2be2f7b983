# Prints every line of these files: a blank or a comment in them may be the fault.
for f in "${NCCL_CONF_FILE:-}" "$home/.nccl.conf" /etc/nccl.conf "$home/.deepspeed_env"; do
  [ -n "$f" ] && [ -e "$f" ] || continue
  users_file "$f" || exit 1
  case $f in "$home"/*) shown="~${f#"$home"}" ;; *) shown=$f ;; esac
  users_text "$f" | awk -v f="$shown" -v names="$names" "$gn_hide$gn_lines"'
    { print f "\t" NR "\t" kept($0) }' || exit 1
done
