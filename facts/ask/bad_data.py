"""Data of an inventory file that pyinfra cannot use, by group or host, and by key."""

from collections.abc import Iterator
from typing import get_type_hints

from pyinfra.api import Inventory
from pyinfra.api.util import raise_if_bad_type
from pyinfra_cli.inventory import _get_groups_from_filename

_ALLOWED = 'allowed: a mapping, such as {"ssh_hostname": "10.0.0.4"}'


def not_mappings(path: str) -> Iterator[str]:
    """Yield each group or host of a file with other data than a mapping, as an address alone."""
    for group, value in _get_groups_from_filename(path).items():
        hosts, *data = value if isinstance(value, tuple) else (value, {})
        for name, *given in [(group, *data), *(each for each in hosts if isinstance(each, tuple))]:
            if [type(each) for each in given] != [dict]:
                kinds = ", ".join(type(each).__name__ for each in given) or "nothing"
                yield f"{path}: {name}: found {kinds} as its data; {_ALLOWED}"


def bad_logins(path: str, inventory: Inventory) -> Iterator[str]:
    """Yield each value of a login whose type pyinfra refuses, as "22" for ssh_port."""
    for host in inventory:
        for key, kind in get_type_hints(host.connector_cls.data_cls).items():
            if (value := host.data.get(key)) is None:
                continue
            try:
                raise_if_bad_type(value, kind, TypeError, "")
            except TypeError as error:
                shown = "a value" if "password" in key else repr(value)
                is_text = kind is int and f"{value}".isdecimal()
                then = f"; next: write {value} without quotes" if is_text else ""
                yield f"{path}: {host.name}: {key}: found {shown} ({str(error)[2:]}){then}"
