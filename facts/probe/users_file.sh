# users_file FILE: whether it can be read; prints the reason if not. Reading a pipe or a device
# would not end. users_text FILE: prints a file that passed this check.
users_file() {
  most=@most@
  [ -f "$1" ] || { echo "$1 is not a regular file"; return 1; }
  head -c @too_many@ "$1" >/dev/null || return 1
  [ "$(head -c @too_many@ "$1" | wc -c)" -le "$most" ] ||
    { echo "$1 has more than @most_mib@ MiB"; return 1; }
}
users_text() { head -c @most@ "$1"; }
