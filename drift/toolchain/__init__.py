"""Build tools and Python packages: what is wrong, and what the rules compute with."""
