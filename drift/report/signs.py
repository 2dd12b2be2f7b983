"""The signs that a report sets beside its words."""

from gpu_node.inventories.plurals import counted

# A second sign beside the colour, for terminals without one and eyes that do not tell them apart.
WRONG = "✗"
# Of each severity, the worst first: colours that can be read on black and on white.
SEVERITY_STYLES = {"error": "bold red", "warning": "magenta", "info": "bold"}


def of_severity(count: int, severity: str) -> str:
    """Return how many findings or problems have a severity: 2 errors, 3 info."""
    return counted(count, severity, "info" if severity == "info" else "")
