"""The network between the nodes: the step that repairs it, and its operations."""
