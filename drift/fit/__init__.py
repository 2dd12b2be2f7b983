"""What a cluster of unlike nodes can agree on: a driver branch, a CUDA, a torch and an NCCL."""
