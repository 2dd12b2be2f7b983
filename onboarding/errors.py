"""The errors that end an onboarding or a removal; the command shows each as one message."""

from pyinfra.api.exceptions import PyinfraError

from gpu_node.inventories.errors import InventoryError, Unconfirmed
from gpu_node.inventories.yaml.edit import EditError


class Stopped(Exception):
    """A stage refused or failed; str() is for the user, without the name of the server."""


class FileError(Stopped):
    """A file of the inventory is missing or wrong; str() begins with the file, and its line."""


class ContactError(Stopped):
    """A server cannot be reached, logged in to or trusted; str() ends with the next step."""


class Refusal(Stopped):
    """A machine cannot become a host as requested; str() ends with what is allowed."""


FAILURES = (Stopped, Unconfirmed, EditError, InventoryError, PyinfraError, OSError)
