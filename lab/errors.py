"""The one exception by which the lab tells its user that something did not work."""


class LabError(Exception):
    """Says in one line what did not work, with what was found and the way on."""
