"""Build tools and Python packages: the step that repairs it, and its operations."""
