"""What is: read-only facts of a node, one module an area, no decisions."""
