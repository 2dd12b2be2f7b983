# The lines of a here-document set nothing: they are held back, and printed only if the word that
# ends the document is missing. Where << may shift bits, nothing is concluded.
set --
for f in /etc/environment /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc \
  "$home/.pam_environment" "$home/.bash_profile" "$home/.bash_login" "$home/.profile" \
  "$home/.bashrc"; do
  [ ! -e "$f" ] || set -- "$@" "$f"
done
[ $# -gt 0 ] || exit 0
users_files "$@" || exit 1
home=$home awk -v names="$names" -v quote="'" "$gn_hide$gn_lines"'
    BEGIN {
      looked_for = "(^|[^A-Za-z0-9_])(" names ")"
      begins = "<<-?[ \t]*[\"\\\\" quote "]?[A-Za-z_][A-Za-z0-9_]*"
    }
    FNR == 1 {
      printf "%s", held
      f = FILENAME; held = ""; inside = count = 0
      if (index(f, ENVIRON["home"] "/") == 1) f = "~" substr(f, length(ENVIRON["home"]) + 1)
    }
    { bare = $0; sub(/\r$/, "", bare) }
    inside < count {
      if (tabs[inside]) sub(/^\t+/, "", bare)
      if (bare != ends[inside]) held = held shown_line($0)
      else if (++inside == count) held = ""
      next
    }
    { printf "%s", shown_line($0) }
    !/^[ \t]*#/ && !/\(\(/ {
      gsub(/<<</, " ", bare)
      while (match(bare, begins)) {
        each = substr(bare, RSTART, RLENGTH)
        bare = substr(bare, RSTART + RLENGTH)
        tabs[count] = each ~ /^<<-/
        gsub(/[^A-Za-z0-9_]/, "", each)
        ends[count++] = each
      }
    }
    END { printf "%s", held }
    function shown_line(text) {
      if (text ~ /^[ \t]*#/ || text !~ looked_for || text !~ /=|unset/) return ""
      if (f == "/etc/environment" || f ~ /\/\.pam_environment$/) text = of_pam(text, f ~ /^\/etc/)
      else text = setting(text)
      return text == "" ? "" : f "\t" FNR "\t" text "\n"
    }' "$@"
