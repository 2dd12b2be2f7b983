"""Configuration files put back as they were before a run: what the runs of a node recorded."""
