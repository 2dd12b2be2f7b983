# Prints every line of these files: a blank or a comment in them may be the fault.
set --
for f in "${NCCL_CONF_FILE:-}" "$home/.nccl.conf" /etc/nccl.conf "$home/.deepspeed_env"; do
  [ -n "$f" ] && [ -e "$f" ] || continue
  case $f in (/*) ;; (*) f=./$f ;; esac
  set -- "$@" "$f"
done
[ $# -gt 0 ] || exit 0
users_files "$@" || exit 1
home=$home awk -v names="$names" "$gn_hide$gn_lines"'
  FNR == 1 {
    f = FILENAME
    if (index(f, ENVIRON["home"] "/") == 1) f = "~" substr(f, length(ENVIRON["home"]) + 1)
    sub(/^\.\//, "", f)
  }
  { print f "\t" FNR "\t" kept($0) }' "$@"
