"""The kind of value that names packages of the system, by the family of their manager."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from inventories.fields import _text

# What apt (a-z0-9+.-) and rpm (also _ and capitals) allow in a name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
_VERSIONED = re.compile(r"=|[._-][0-9]{3}\.[0-9]{2,3}(\.[0-9]+)?(-|$)")
# Which key of the inventory names the packages that a package manager takes.
FAMILIES: Mapping[str, str] = {"apt-get": "apt", "dnf": "rpm", "yum": "rpm"}


def _packages(value: object) -> tuple[str, ...]:
    """Names as a list, or as text with commas, which is how --data says them."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError("")
    for name in listed:
        text = _text(name)
        if _VERSIONED.search(text):
            raise ValueError(f"{name!r}: the version is said by driver.version")
        if not _NAME.fullmatch(text):
            raise ValueError(f"{name!r} is no name of a package")
    if len(set(listed)) < len(listed):
        raise ValueError("one of them twice")
    return tuple(listed)


Packages = Annotated[
    tuple[str, ...],
    BeforeValidator(_packages),
    Field(description="a list of names of packages, such as [nvidia-dkms-535, nvidia-utils-535]"),
]
