"""Probing nodes: sessions, many nodes in parallel, time limits."""
