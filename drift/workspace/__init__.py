"""The workspace and directories: what is wrong, and what the rules compute with."""
