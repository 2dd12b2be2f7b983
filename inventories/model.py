"""What every model of an inventory has in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Refuses unknown keys and later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # The item that a word in the place of a section means: nccl: match-torch, driver: 535.
    SHORT: ClassVar[str] = ""
    # A section as it is written: shown in place of all its keys.
    EXAMPLE: ClassVar[str] = ""
