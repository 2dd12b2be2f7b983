# Server B of the field notes: two V100 32 GB. The same update came, and it was not booted since.
echo 3.10.0-1160.71.1.el7.x86_64 >/usr/lib/gpu-node-lab/boot-once
cat >/usr/lib/gpu-node-lab/gpus <<'END'
0, Tesla V100-PCIE-32GB, GPU-8d1b7c40-22c5-4e0f-b4d1-7c9a5e0b2001, 32768, 00000000:18:00.0, 7.0
1, Tesla V100-PCIE-32GB, GPU-8d1b7c40-22c5-4e0f-b4d1-7c9a5e0b2002, 32768, 00000000:AF:00.0, 7.0
END

# The right wheel was installed last, over the wrong one: correct by luck.
environment /root/miniconda3/envs/dis torch-2.1.2 nvidia_nccl_cu11-2.14.3 nvidia_nccl_cu12-2.18.1 \
    pyarrow-11.0.0
rpm_packages libnccl-2.19.3

# A line of server A's ~/.bashrc, whose interface is called so; this one's is eno1.
printf '%s\n' '' '# zhang: as on A' >>/root/.bashrc
printf 'export NCCL_SOCKET_IFNAME=bond0' >>/root/.bashrc
