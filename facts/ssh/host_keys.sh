# Without root only the files are known: the test assumes that sshd offers all of them.
PATH=$PATH:/usr/sbin:/sbin; export PATH
files=$(sshd -T 2>/dev/null | sed -n 's/^hostkey //p')
[ -n "$files" ] || files=$(ls /etc/ssh/ssh_host_*_key.pub 2>/dev/null | sed 's/\.pub$//')
[ -n "$files" ] || ! ls /etc/ssh/ssh_host_*_key >/dev/null 2>&1 ||
  { echo "its host keys can be read by root alone"; exit 1; }
for file in $files; do
  if output=$(ssh-keygen -y -P '' -f "$file" 2>/dev/null </dev/null) && [ -n "$output" ]; then
    printf '%s\n' "$output"
  else
    [ ! -r "$file.pub" ] || head -n 1 "$file.pub"
  fi
done
