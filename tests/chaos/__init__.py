"""Kills the controller and the nodes at chosen moments, and counts what is left."""
