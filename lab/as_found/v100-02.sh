# A new server: root has a password, nobody's key is authorised, no driver is installed.
printf 'root:%s\n' "$PASSWORD" | chpasswd
sed -i -e 's/^PermitRootLogin .*/PermitRootLogin yes/' \
    -e 's/^PasswordAuthentication .*/PasswordAuthentication yes/' /etc/ssh/sshd_config

# The distribution's own libnccl2, whose version does not say for which CUDA it is.
dpkg -i /mnt/distribution/libnccl2_*.deb >/dev/null
