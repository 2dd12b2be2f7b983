"""Operations on the start files of a user's shell.

pyinfra's files.block edits in place, without a check, and puts a block at the end, which a shell
without a terminal may never reach.
"""

from functools import partial

from pyinfra.api import operation

from gpu_node.deploy.files.operations import Commands, edited
from gpu_node.drift.env.bashrc import Blocks, with_blocks

# Refuse a file that bash cannot parse, unless bash could not parse the old one either.
BASH_CHECK = """
command -v bash >/dev/null 2>&1 || exit 0
bash -n "$1" && exit 0
[ -e "$2" ] && ! bash -n "$2" 2>/dev/null
"""


@operation()
def blocks(path: str, user: str, top: str, end: str = "") -> Commands:
    """
    Write our blocks into a start file; every other byte of it stays.

    + path: the file, eg ``/root/.bashrc``
    + user: whose file it is
    + top: the text of the block at the top, with its newlines; empty for no block
    + end: the text that a block at the end repeats
    """
    edit, done = partial(with_blocks, blocks=Blocks(top, end)), "has what is wanted"
    yield from edited(path, edit, done, absent="empty", check=BASH_CHECK, user=user)
