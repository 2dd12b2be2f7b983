"""The steps, one module an area: which operations the findings of a node call for."""
