"""Files on nodes: replaced as a whole, confirmed by a login, undone where that fails."""
