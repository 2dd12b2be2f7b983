"""The words for two names of an inventory that are one machine: the report's and verify's."""

ONE_NAME = "keep one name of it in the inventory, or correct the address of the other one"


def are_one(names: str) -> str:
    """Return what is wrong with some names, which a list has as text."""
    return f"{names} are one machine"
