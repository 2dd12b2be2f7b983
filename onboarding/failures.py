"""What ends an onboarding or a removal with a line for the user, whichever part it came from."""

from pyinfra.api.exceptions import PyinfraError

from inventories.editing import EditError
from inventories.problems import InventoryError
from onboarding.contact import ContactError
from onboarding.gpus import Refusal
from onboarding.stopped import Stopped

FAILURES = (Stopped, ContactError, Refusal, EditError, InventoryError, PyinfraError, OSError)
