"""Operations on NCCL's settings for a node's network."""

from functools import partial

from pyinfra.api import operation

from gpu_node.deploy.files.operations import Commands, edited
from gpu_node.drift.env.bashrc import with_conf


@operation()
def nccl_conf(path: str, interface: str) -> Commands:
    """
    Set the interface in nccl.conf before any other line about it: for NCCL the first one counts.

    + path: the file, eg ``/etc/nccl.conf``
    + interface: its full name, eg ``eno1``
    """
    # No export, no quotes, no blanks; the second = means the exact name.
    edit = partial(with_conf, lines=f"NCCL_SOCKET_IFNAME=={interface}\n")
    yield from edited(path, edit, f"names {interface}")
