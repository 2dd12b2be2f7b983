# Prints every line of these files: a blank or a comment in them may be the fault.
set --
for f in "${NCCL_CONF_FILE:-}" "$home/.nccl.conf" /etc/nccl.conf "$home/.deepspeed_env"; do
  [ -n "$f" ] && [ -e "$f" ] || continue
  case $f in (/*) ;; (*) f=./$f ;; esac
  set -- "$@" "$f"
done
[ $# -gt 0 ] || exit 0
users_files "$@" || exit 1
# A line `missing<tab>0<tab>NAME=PATH` for each file that a line names and the user cannot read.
files=' @files@ '
for f in "$@"; do
  while IFS= read -r line || [ -n "$line" ]; do
    case $files in (*" ${line%%=*} "*) ;; (*) continue ;; esac
    case ${line#*=} in (*[!A-Za-z0-9._/+@%:,~-]*) continue ;; (/*) ;; (*) continue ;; esac
    [ -r "${line#*=}" ] || printf 'missing\t0\t%s\n' "$line"
  done <"$f"
done
home=$home awk -v names="$names" "$gn_hide$gn_lines"'
  FNR == 1 {
    f = FILENAME
    if (index(f, ENVIRON["home"] "/") == 1) f = "~" substr(f, length(ENVIRON["home"]) + 1)
    sub(/^\.\//, "", f)
  }
  { print f "\t" FNR "\t" kept($0) }' "$@"
