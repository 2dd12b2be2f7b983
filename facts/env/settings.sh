"""Scripts that send the lines which set variables: of start files, and of files with own rules."""

# What a here-document says is no setting: its lines are held back, and sent after all where the
# word that ends it never comes. Where << may be a shift of bits nothing is concluded.
SETTINGS = r"""
for f in /etc/environment /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc \
  "$home/.pam_environment" "$home/.bash_profile" "$home/.bash_login" "$home/.profile" \
  "$home/.bashrc"; do
  [ -f "$f" ] || continue
  case $f in "$home"/*) shown="~${f#"$home"}" ;; *) shown=$f ;; esac
  awk -v f="$shown" -v names="$names" -v quote="'" '
    BEGIN {
      wanted = "(^|[^A-Za-z0-9_])(" names ")"
      begins = "<<-?[ \t]*[\"\\\\" quote "]?[A-Za-z_][A-Za-z0-9_]*"
      inside = count = 0
    }
    { bare = $0; sub(/\r$/, "", bare) }
    inside < count {
      if (tabs[inside]) sub(/^\t+/, "", bare)
      if (bare != word[inside]) held = held told($0)
      else if (++inside == count) held = ""
      next
    }
    { printf "%s", told($0) }
    !/^[ \t]*#/ && !/\(\(/ {
      gsub(/<<</, " ", bare)
      while (match(bare, begins)) {
        each = substr(bare, RSTART, RLENGTH)
        bare = substr(bare, RSTART + RLENGTH)
        tabs[count] = each ~ /^<<-/
        gsub(/[^A-Za-z0-9_]/, "", each)
        word[count++] = each
      }
    }
    END { printf "%s", held }
    function told(text) {
      if (text ~ /^[ \t]*#/ || text !~ wanted || text !~ /=|unset/) return ""
      gsub(/[^ -~\t\r]/, "?", text)
      return f "\t" NR "\t" text "\n"
    }' "$f" || exit 1
done
"""
# Every line: of these files a blank or a comment may be the fault.
CONF = r"""
for f in "${NCCL_CONF_FILE:-}" "$home/.nccl.conf" /etc/nccl.conf "$home/.deepspeed_env"; do
  [ -n "$f" ] && [ -f "$f" ] || continue
  case $f in "$home"/*) shown="~${f#"$home"}" ;; *) shown=$f ;; esac
  awk -v f="$shown" '{ gsub(/[^ -~\t\r]/, "?"); print f "\t" NR "\t" $0 }' "$f" || exit 1
done
"""
