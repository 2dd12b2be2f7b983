"""The NVIDIA driver: what is wrong, and what the rules compute with."""
