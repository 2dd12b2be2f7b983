"""What starts a job for real, over the nodes' shared tree: PyTorch, DeepSpeed and pdsh."""
