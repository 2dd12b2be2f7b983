"""Shared memory: the step that repairs it, and its operations."""
