"""Data of an inventory file that pyinfra cannot use, by group or host, and by key."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from types import FunctionType
from typing import get_type_hints

from pyinfra.api import Host, Inventory
from pyinfra.api.util import raise_if_bad_type
from pyinfra.connectors.docker import DockerConnector
from pyinfra.connectors.dockerssh import DockerSSHConnector
from pyinfra_cli.inventory import _get_groups_from_filename, _get_imported_names
from pyinfra_cli.util import exec_file

_STARTS = (
    "found no container that runs (pyinfra would start one, and a report changes nothing); "
    "allowed: @docker/ID or @podman/ID of one that runs; next: write its ID, or a node's address"
)
_SECONDS = 10
# What people write for a list of hosts.
_HOSTS = "allowed: a list of hosts, each a name or (NAME, DATA)"
_PLAIN = (
    "allowed: a plain name or address; next: write (NAME, {'ssh_hostname': ADDRESS, "
    "'ssh_port': 22, 'ssh_user': USER}) for each machine"
)
# A name, or a connector with what it is given; an IPv6 address has more colons than one.
_NAME = re.compile(r"[\w.-]+|@.*")
_MEANT = (str, list, tuple, set, dict, FunctionType)
_ALLOWED = 'allowed: a mapping, such as {"ssh_hostname": "10.0.0.4"}'


def not_mappings(path: str) -> Iterator[str]:
    """Yield each group or host of a file with other data than a mapping, as an address alone."""
    for group, value in _get_groups_from_filename(path).items():
        hosts, *data = value if isinstance(value, tuple) else (value, {})
        for name, *given in [(group, *data), *(each for each in hosts if isinstance(each, tuple))]:
            if [type(each) for each in given] != [dict]:
                kinds = ", ".join(type(each).__name__ for each in given) or "nothing"
                yield f"{path}: {name}: found {kinds} as its data; {_ALLOWED}"


def misread_groups(path: str) -> Iterator[str]:
    """Yield the groups of a file of which pyinfra makes other hosts than it names."""
    for group, value in _get_groups_from_filename(path).items():
        hosts = value[0] if isinstance(value, tuple) else value
        if isinstance(hosts, str):
            yield f"{path}: {group}: found str as its hosts; {_HOSTS}; next: {_written(group)}"
            continue
        names = Counter(each[0] if isinstance(each, tuple) else each for each in hosts)
        for name, count in names.items():
            if count > 1:
                then = "next: give the other machine another name"
                yield f"{path}: {group}: found {name!r} twice; allowed: one entry a host; {then}"
            elif not (_NAME.fullmatch(str(name)) or str(name).count(":") > 1):
                yield f"{path}: {group}: found {name!r} as a host; {_PLAIN}"


def _written(group: str) -> str:
    return f"write {group} = [('gpu01', {{'ssh_hostname': '10.0.0.4'}})]"


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


def starting(path: str, inventory: Inventory) -> Iterator[str]:
    """Yield each host for which a connection would start a container."""
    for host in inventory:
        kind = host.connector_cls
        runs = issubclass(kind, DockerConnector) and _runs(kind.docker_cmd, host)
        if issubclass(kind, (DockerConnector, DockerSSHConnector)) and not runs:
            yield f"{path}: {host.name}: {_STARTS}"


def _runs(program: str, host: Host) -> bool:
    """Whether a container runs: pyinfra starts any other."""
    name = host.data.docker_identifier
    words = [program, "container", "inspect", "--format", "{{.State.Running}}", "--", name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == "true"


def not_groups(path: str) -> Iterator[str]:
    """Yield each name of a file that is no group to pyinfra, with what it is."""
    imported = _get_imported_names(path)
    for name, value in exec_file(path, return_locals=True).items():
        if name.startswith("_") or name in imported or not value or not isinstance(value, _MEANT):
            continue
        found = type(value).__name__
        if isinstance(value, list | tuple):
            kinds = (type(each).__name__ for each in value if not isinstance(each, str | tuple))
            found = f"a {found} with {next(kinds, 'nothing')} in it"
        yield f"{path}: {name}: found {found}; {_HOSTS}; next: {_written(name)}"
