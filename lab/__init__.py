"""Emulated GPU servers to try and test the project on; no room of the product knows of them."""
