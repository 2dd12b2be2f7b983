"""Cluster files as text: read with line numbers, and edited so that all other bytes stay."""
