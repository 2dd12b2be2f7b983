# Prints the lines that set variables of the loader, so that a finding can name the line.
for f in /etc/environment /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc \
  "$HOME/.bashrc" "$HOME/.bash_profile" "$HOME/.profile" /etc/ld.so.preload; do
  [ -f "$f" ] && [ -r "$f" ] || continue
  head -c 1048576 "$f" | awk -v f="$f" -v names="LD_(PRELOAD|LIBRARY_PATH)=" "$gn_hide$gn_lines"'
    /^[^#]*LD_(PRELOAD|LIBRARY_PATH)=/ || (f ~ /preload$/ && /nccl/) {
      text = f ~ /preload$/ ? $0 : setting($0)
      if (text != "") print f ":" NR ": " substr(text, 1, 200) }'
done
