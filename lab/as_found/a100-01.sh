# Server A of the field notes: the launching node, two A100 40 GB.
cat >/usr/lib/gpu-node-lab/gpus <<'END'
0, NVIDIA A100-PCIE-40GB, GPU-5f0c2a51-6b1e-4c77-9d7a-1f3f2f0a1001, 40960, 00000000:3B:00.0, 8.0
1, NVIDIA A100-PCIE-40GB, GPU-5f0c2a51-6b1e-4c77-9d7a-1f3f2f0a1002, 40960, 00000000:86:00.0, 8.0
END
