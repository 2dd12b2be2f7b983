"""The NVIDIA driver: the step that repairs it, and its operations."""
