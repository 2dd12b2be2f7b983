"""The drift report: its data, and one module for each form it is written in."""
