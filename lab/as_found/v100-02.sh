# A new server: root has a password, nobody's key is authorised, no driver is installed.
printf 'root:%s\n' "$PASSWORD" | chpasswd
sed -i -e 's/^PermitRootLogin .*/PermitRootLogin yes/' \
    -e 's/^PasswordAuthentication .*/PasswordAuthentication yes/' /etc/ssh/sshd_config
