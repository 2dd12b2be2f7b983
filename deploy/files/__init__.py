"""Files on nodes: replaced as a whole, confirmed by a login, restored if that fails."""
