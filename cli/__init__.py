"""The `gpu-node` command: thin, it calls the other rooms."""
