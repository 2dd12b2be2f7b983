# users_files FILE ...: whether these files can be read; prints the reason if not. Reading a pipe or a
# device would not end.
users_files() {
  for file; do
    [ -f "$file" ] || { echo "$file is not a regular file"; return 1; }
    [ -r "$file" ] || { head -c 1 "$file" >/dev/null && continue || return 1; }
  done
  # find goes back to where it began, which may be root's home.
  large=$(cd / && find -L "$@" -maxdepth 0 -size +@most@c) || return 1
  [ -z "$large" ] || { echo "${large%%
*} has more than @most_mib@ MiB"; return 1; }
}
