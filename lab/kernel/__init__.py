"""A virtual machine with its own disk and kernel, for what a container cannot show."""
