# Without root, sshd prints no settings: the HostKey lines of its files, or else the files that sshd
# takes without such a line; the test assumes that sshd offers all of them.
PATH=$PATH:/usr/sbin:/sbin; export PATH
files=$(sshd -T 2>/dev/null | sed -n 's/^hostkey //p')
[ -n "$files" ] || files=$(cat /etc/ssh/sshd_config.d/*.conf /etc/ssh/sshd_config 2>/dev/null |
  sed -n 's/^[[:space:]]*[Hh][Oo][Ss][Tt][Kk][Ee][Yy][[:space:]=]\{1,\}"\{0,1\}\([^"#[:space:]]*\).*/\1/p')
[ -n "$files" ] || files=$(ls /etc/ssh/ssh_host_*_key.pub 2>/dev/null | sed 's/\.pub$//')
[ -n "$files" ] || ! ls /etc/ssh/ssh_host_*_key >/dev/null 2>&1 ||
  { echo "its host keys can be read by root alone"; exit 1; }
known=$(for file in $files; do
  if output=$(ssh-keygen -y -P '' -f "$file" 2>/dev/null </dev/null) && [ -n "$output" ]; then
    printf '%s\n' "$output"
  else
    [ ! -r "$file.pub" ] || head -n 1 "$file.pub"
  fi
done)
[ -z "$files" ] || [ -n "$known" ] || { echo "its host keys can be read by root alone"; exit 1; }
[ -z "$known" ] || printf '%s\n' "$known"
