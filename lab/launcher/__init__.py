"""The real launchers, over the nodes' shared tree: PyTorch, DeepSpeed and pdsh."""
