"""Stopped: why an onboarding or a removal went no further, and what to do next."""


class Stopped(Exception):
    """A stage that refused or failed; str() is for the user, without the name of the server."""
