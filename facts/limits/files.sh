[ ! -d /etc/security/limits.d ] || [ -r /etc/security/limits.d ] ||
  { echo "/etc/security/limits.d is closed"; exit 1; }
for f in /etc/security/limits.conf /etc/security/limits.d/*.conf; do
  [ -f "$f" ] || continue
  awk -v f="$f" '!/^[[:space:]]*(#|$)/ || /\r[^\r]/ { print f ":" NR ":" $0 }' "$f" || exit 1
done
