"""A machine with a disk and a kernel of its own, for what a container cannot show."""
