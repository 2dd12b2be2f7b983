# A new server: root has a password, no key is authorised, no driver is installed.
printf 'root:%s\n' "$PASSWORD" | chpasswd
sed -i -e 's/^PermitRootLogin .*/PermitRootLogin yes/' \
    -e 's/^PasswordAuthentication .*/PasswordAuthentication yes/' /etc/ssh/sshd_config

cat >/usr/lib/gpu-node-lab/gpus <<'END'
0, Tesla V100-PCIE-32GB, GPU-8d1b7c40-22c5-4e0f-b4d1-7c9a5e0b3001, 32768, 00000000:18:00.0, 7.0
1, Tesla V100-PCIE-32GB, GPU-8d1b7c40-22c5-4e0f-b4d1-7c9a5e0b3002, 32768, 00000000:AF:00.0, 7.0
END

# The distribution's libnccl2, whose version does not name its CUDA.
dpkg -i /mnt/distribution/libnccl2_*.deb >/dev/null
