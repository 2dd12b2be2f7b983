"""The exception with which the lab reports an error to its user."""


class LabError(Exception):
    """One line: what failed, what was found, and the next step."""
