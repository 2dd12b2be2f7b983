"""The workspace and directories: the step that repairs it, and its operations."""
