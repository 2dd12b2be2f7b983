"""Emulated GPU servers to try and test the project on; no product room imports this one."""
