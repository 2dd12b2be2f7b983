"""Operations, one module an area: each does one thing to a node where a builtin would do it wrong."""
