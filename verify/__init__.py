"""Verify: a real all-reduce across the nodes, started as a launcher starts it."""
