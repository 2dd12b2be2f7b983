"""The environment of a launcher's shell: the step that repairs it, and its operations."""
