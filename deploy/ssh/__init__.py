"""SSH among the nodes: the step that repairs it, and its operations."""
