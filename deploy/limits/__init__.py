"""Resource limits: the step that repairs it, and its operations."""
