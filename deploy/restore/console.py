"""`restore.sh`, which each run leaves beside its copies: a restore at a console, without SSH."""

import shlex
from collections.abc import Generator

from pyinfra.api import StringCommand, deploy, operation

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.planning import changes
from gpu_node.deploy.engine.scripts import HEAD, LOCK, RUN_SECONDS, as_run, needed, script, text
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.restore.records import places
from gpu_node.facts.limits.confirmed import SSHD
from gpu_node.facts.probe.training_user import AS_USER

# Variables of replace.sh that are the same for each file: here no change has to be confirmed.
_SAME = {
    **{"confirm": "0", "again": "no", "key": "", "record": "", "undo": "", "then": ""},
    **{"pending": replacement.PENDING, "lock": LOCK, "patience_for_runs": str(RUN_SECONDS)},
    **{"origin": "restore.sh at a console", "as_user": AS_USER},
}
# The folder of the run, and the variables of walk.sh.
_HERE = """here=$(cd -P -- "$(dirname -- "$0")" && pwd -P) || exit 1
top=${here%/*} runs=${here##*/}"""


def restore_script() -> str:
    """Return the text of restore.sh."""
    # lock.sh takes the lock anew for each file; write.sh may run as another user.
    replacing = "\n".join([text("lock"), text("replace")])
    given = _SAME | {"replacing": replacing, "writing": as_run("write"), "live": _live()}
    first = [f"{key}={shlex.quote(value)}" for key, value in given.items()]
    functions = [each for each in needed("replace") if each != "lock"]
    parts = dict.fromkeys([*functions, *needed("console"), "console"])
    return "\n".join(["#!/bin/sh", HEAD, *first, _HERE, *map(text, parts)])


def _live() -> str:
    """Return what goes on with the content that a file had, and what ends that, by its pattern."""
    rows = [(each.pattern, f"{each.live}; {each.then}") for each in places() if each.then]
    rows.append((f"{SSHD}*", "sshd keeps what it has read; systemctl reload sshd (or ssh)"))
    return "\n".join("\t".join(row) for row in rows)


@deploy("Restore")
def converge(plan: Plan) -> None:
    """Leave restore.sh on a node that the run changes."""
    if changes(plan):
        leave(name="Leave restore.sh for a console")


@deploy("Restore")
def tidy(plan: Plan) -> None:
    """Remove restore.sh where each step has refused to change the node."""
    if changes(plan):
        remove_unused(name="Remove restore.sh if nothing was changed")


@operation()
def leave() -> Generator[StringCommand, None, None]:
    """Leave restore.sh in the folder of this run, before the first change."""
    given = replacement.printf_format(restore_script())
    yield script("leave", given, folder=replacement.backups())


@operation()
def remove_unused() -> Generator[StringCommand, None, None]:
    """Remove it, and the folder of this run, if nothing is recorded there."""
    top, _, run = replacement.backups().rpartition("/")
    yield StringCommand(
        f"cd {top} && {{ [ -e {run}/manifest ] || [ -e {run}/also ] || {{ rm -f {run}/restore.sh; "
        f"rmdir {run} && cd .. && rmdir {top}; }}; }} 2>/dev/null; :"
    )
