"""SSH among the nodes: what is wrong, and what the rules compute with."""
