# Server A of the field notes: the launching node, two A100 40 GB. It hung and was booted again, into
# a kernel from an update, for which no driver was built.
cat >/usr/lib/gpu-node-lab/gpus <<'END'
0, NVIDIA A100-PCIE-40GB, GPU-5f0c2a51-6b1e-4c77-9d7a-1f3f2f0a1001, 40960, 00000000:3B:00.0, 8.0
1, NVIDIA A100-PCIE-40GB, GPU-5f0c2a51-6b1e-4c77-9d7a-1f3f2f0a1002, 40960, 00000000:86:00.0, 8.0
END

# The wrong wheel was installed last: its library is loaded, whatever pip lists.
environment /root/miniconda3/envs/dis torch-2.1.2 nvidia_nccl_cu12-2.18.1 nvidia_nccl_cu11-2.14.3 \
    pyarrow-15.0.2
# Two versions of the system's package, and an unrelated package with a similar name.
rpm_packages libnccl-2.19.3 libnccl-devel-2.19.3 libnccl-2.14.3 libnccl-rdma-sharp-plugin-2.5.0
