"""SSH connections to nodes: which host keys are trusted, and how much a node may send."""
