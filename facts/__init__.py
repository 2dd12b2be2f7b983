"""The state of a node: read-only facts, one folder for each area, no decisions."""
