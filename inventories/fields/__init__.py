"""The kinds of value that a cluster file holds."""
