"""What is asked of a server before it becomes a node."""
