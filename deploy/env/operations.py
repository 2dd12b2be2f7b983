"""Operations on the start files of a user's shell.

pyinfra's files.block edits in place, without a check, and puts a block at the end, which a shell
without a terminal may never reach.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from pyinfra import host
from pyinfra.api import FunctionCommand, StringCommand, operation

from gpu_node.deploy.engine.scripts import as_user
from gpu_node.deploy.files.replace import replace, unread
from gpu_node.drift.env.bashrc import Blocks, with_blocks
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent

# Refuse a file that bash cannot parse, unless bash could not parse the old one either.
BASH_CHECK = """
command -v bash >/dev/null 2>&1 || exit 0
bash -n "$1" && exit 0
! bash -n "$2" 2>/dev/null
"""
_EMPTY = FileContent(exists=True, text="", problem="")


@operation()
def blocks(
    path: str, user: str, top: str, end: str = ""
) -> Generator[StringCommand | FunctionCommand, None, None]:
    """
    Write our blocks into a start file; every other byte of it stays.

    + path: the file, eg ``/root/.bashrc``
    + user: whose file it is
    + top: the text of the block at the top, with its newlines; empty for no block
    + end: the text that a block at the end repeats

    **Example:**

    .. code:: python

        env.blocks(path="/root/.bashrc", user="root", top="export OMP_NUM_THREADS='8'\\n")
    """
    old = host.get_fact(FileBytes, path=path, user=user)
    if old["problem"]:
        yield unread(path, old)
        return
    new = with_blocks(old["text"], Blocks(top, end))
    if new == old["text"]:
        host.noop(f"{path} has what is wanted")
        return
    if not old["exists"]:
        yield as_user(user, "own_file", file=path)
        old = _EMPTY
    again = partial(with_blocks, blocks=Blocks(top, end))
    yield replace(path, old, new, check=BASH_CHECK, user=user, again=again)


@operation()
def own_file(path: str, text: str) -> Generator[StringCommand | FunctionCommand, None, None]:
    """
    Write the file of variables that is read by a start file which nodes may share.

    + path: the file, eg ``/etc/gpu-node/env.sh``
    + text: all of it

    **Example:**

    .. code:: python

        env.own_file(path="/etc/gpu-node/env.sh", text="export OMP_NUM_THREADS='8'\\n")
    """
    old = host.get_fact(FileBytes, path=path)
    if old["problem"]:
        yield unread(path, old)
        return
    if old["text"] == text:
        host.noop(f"{path} has what is wanted")
        return
    yield replace(path, old, text, check=BASH_CHECK, again=lambda _: text)
