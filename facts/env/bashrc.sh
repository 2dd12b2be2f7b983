# Prints our blocks of ~/.bashrc. Of the user's lines it prints only the words that show where
# a non-interactive shell returns. Bytes that are not ASCII do not matter in either.
[ -e "$home/.bashrc" ] || { echo absent; exit 0; }
users_files "$home/.bashrc" || exit 1
awk -v names="$names" "$gn_hide$gn_lines"'
  function words(text,   found) {
    if (text ~ /^[ \t\r]*#/) return ""
    if (text ~ /\$-|PS1|(^|[ \t])-t [01]|(^|[^A-Za-z0-9_])tty([^A-Za-z0-9_]|$)/) found = "$- "
    if (text ~ /(^|[^A-Za-z0-9_-])(return|exit)([^A-Za-z0-9_-]|$)/) found = found "return"
    return found
  }
  # A line of our block: a variable that is no longer checked is printed without its value.
  function own(text,   name) {
    gsub(/[^ -~\t\r]/, "?", text)
    if (text ~ /^(# (>>>|<<<) gpu-node|unset [A-Za-z0-9_]+$|\[ ! -r \/etc\/gpu-node\/)/) return text
    if (text !~ /^(export )?[A-Z][A-Za-z0-9_]*=/) return text ~ /^#/ ? "#" : "?" words(text)
    name = text; sub(/^export /, "", name); name = substr(name, 1, index(name, "=") - 1)
    if (wanted(name) && !secret(name)) return text
    return substr(text, 1, index(text, "=")) "@hidden@"
  }
  /^# >>> gpu-node/ { inside = 1 }
  { text = inside ? own($0) : words($0); if (text != "") print NR "\t" text }
  /^# <<< gpu-node/ { inside = 0 }
  END { print "lines\t" NR }' "$home/.bashrc"
