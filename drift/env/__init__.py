"""The environment of a launcher's shell: what is wrong, and what the rules compute with."""
