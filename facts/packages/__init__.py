"""Packages of the system: locks on them, and the repositories that they come from."""
