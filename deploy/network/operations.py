"""Operations on NCCL's settings for a node's network."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, StringCommand, operation

from gpu_node.deploy.files.replace import replace, unread
from gpu_node.drift.env.bashrc import with_conf
from gpu_node.facts.probe.file_bytes import FileBytes


@operation()
def nccl_conf(path: str, interface: str) -> Generator[StringCommand | FunctionCommand, None, None]:
    """
    Set the interface in nccl.conf before any other line about it: for NCCL the first one counts.

    + path: the file, eg ``/etc/nccl.conf``
    + interface: its full name, eg ``eno1``

    **Example:**

    .. code:: python

        network.nccl_conf(path="/etc/nccl.conf", interface="eno1")
    """
    old = host.get_fact(FileBytes, path=path)
    if old["problem"]:
        yield unread(path, old)
        return
    # No export, no quotes, no blanks; the second = means the exact name.
    line = f"NCCL_SOCKET_IFNAME=={interface}\n"
    new = with_conf(old["text"], line)
    if old["exists"] and new == old["text"]:
        host.noop(f"{path} names {interface}")
        return
    yield replace(path, old, new, again=lambda text: with_conf(text, line))
