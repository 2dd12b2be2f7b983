"""Repairs: pyinfra deploys and operations that repair what the rules find."""
