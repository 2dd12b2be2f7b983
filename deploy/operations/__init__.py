"""Operations, one module an area: one change to a node each, where a builtin would be wrong."""
