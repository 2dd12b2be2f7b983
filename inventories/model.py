"""What every model of an inventory has in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

# Begins the name of a kind in a union, which pydantic puts into the place of an error. It is long:
# no written key begins so.
MARK = "\0gpu-node kind "


class Model(BaseModel):
    """Refuses unknown keys and later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # The item that a word in the place of a section means: nccl: match-torch, driver: 535.
    SHORT: ClassVar[str] = ""
    # A section as it is written: shown in place of all its keys.
    EXAMPLE: ClassVar[str] = ""
