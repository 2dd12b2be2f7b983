# Prints the variables of a launcher's shell, and `missing NAME=PATH` for each file that one names and
# that the user cannot read. The second line of a value is not a variable. The last output of
# ~/.bashrc may have no newline at its end.
print_all='echo; for n in @files@; do eval "f=\${$n-}"
case $f in (*[!A-Za-z0-9._/+@%:,~-]*) ;; (/*) [ -r "$f" ] || echo "missing $n=$f" ;; esac; done
if env -0 >/dev/null 2>&1; then env -0 | tr "\n\0" "?\n"; else env; fi'
[ "$user" != "$me" ] || [ ! -d "$home" ] || [ -x "$home" ] || { echo "$home is closed to $user"; exit 1; }
all=$(as_launcher "$print_all" 2>&1) || {
  ended=$?
  last=$(printf '%s\n' "$all" | sed '/^[A-Za-z_][A-Za-z0-9_]*=/d' | tail -n 1)
  echo "a shell of $user ended with $ended first (does ~/.bashrc exit?)${last:+, after: $last}"
  exit 1
}
printf '%s\n' "$all" | awk -v names="$names" "$gn_hide"'
  BEGIN { wanted = "^(" names ")" }
  /^[A-Za-z]+_(proxy|PROXY)=/ { print shown($0); next }
  /^missing NCCL_[A-Z_]+=\// { print; next }
  /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted {
    name = substr($0, 1, index($0, "=") - 1); print secret(name) ? name "=@hidden@" : $0 }'
