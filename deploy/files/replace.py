"""Replaces a file on a node: backup once a run, write a new file beside it, check, rename."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from gpu_node.deploy.engine.scripts import Script, as_run, script, text
from gpu_node.facts.limits import unsettled
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent
from gpu_node.facts.probe.training_user import AS_USER
from gpu_node.inventories.escape import visible


@cache
def run() -> str:
    """The name of this run: the time in UTC and random letters, as runs may start together."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def backups() -> str:
    """The backup folder of this run on each node."""
    return f"/var/backups/gpu-node/{run()}"


# On the node: records of unconfirmed changes, which only root can read.
PENDING = unsettled.FOLDER
# How often a file is read again if other runs write it meanwhile.
_TRIES = 5
# The output of replace.sh in this case.
_AGAIN = "; reading it again"
# Returns the new content of a file from the current one.
Edit = Callable[[str], str]


class Replacement(Script):
    """A replacement of a file; if the file has changed since, it is read and edited again."""

    def __init__(
        self, first: StringCommand, path: str, user: str, then: Callable[[FileContent], Script]
    ):
        super().__init__(*first.bits, **first.connector_arguments)
        self.path, self.user, self.then = path, user, then

    @override
    def run(self, state: State, host: Host, given: Any) -> tuple[bool, CommandOutput]:
        done, output = super().run(state, host, given)
        for _ in range(_TRIES):
            if done or not any(line.endswith(_AGAIN) for line in output.stdout_lines):
                break
            old = host.get_fact(FileBytes, path=self.path, user=self.user)
            if old["problem"]:
                return refuse_unread(state, host, self.path, old["problem"]), output
            done, output = Script.run(self.then(old), state, host, given)
        return done, output


def replace(
    path: str,
    old: FileContent,
    new: str,
    check: str = "",
    confirm_seconds: int = 0,
    user: str = "",
    then: str = "",
    again: Edit | None = None,
) -> StringCommand:
    """Return the command that replaces `path`, whose content is `old`, by `new` (Latin-1).

    `check` is sh that gets the new and the old file as $1 and $2 and refuses by failing. With
    `confirm_seconds` the node undoes the change unless `confirm` runs in time, and after undoing it
    runs `then`, also sh: a daemon may have to read the file again. The content is sent by stdin: an
    argument would show it, and passwords in it, to all users. A file in the home of a `user` is
    written as that user, unless it belongs to root. With `again`, which returns the new text for
    another content, a file that another run has written meanwhile is read again.
    """
    if again is not None:
        rest = (check, confirm_seconds, user, then)
        first = _replace(path, old, new, *rest, again=True)
        return Replacement(
            first,
            path,
            user,
            lambda now: _replace(path, now, again(now["text"]), *rest, again=True),
        )
    return _replace(path, old, new, check, confirm_seconds, user, then)


def _replace(
    path: str,
    old: FileContent,
    new: str,
    check: str,
    confirm_seconds: int,
    user: str,
    then: str,
    again: bool = False,
) -> Script:
    stdin = _printf_format(new)
    first = {
        "file": path,
        "before": sum_of(old["text"]) if old["exists"] else "absent",
        "backups": backups(),
    }
    after = {"after": sum_of(new), "again": "yes" if again else "no"}
    confirmed = "yes" if confirm_seconds else "no"
    keep = "yes" if _is_root(user) else "no"
    variables = {**first, **after, "keep": keep, "check": check, "confirm": confirmed}
    name, given = "replace", variables
    if not _is_root(user):
        run = as_run("replace", **variables)
        given = {**first, **after, "user": user, "as_user": AS_USER, "run": run}
        name = "replace_as"
    if not confirm_seconds:
        return script(name, stdin, **given)
    sums = {"before": first["before"], "after": after["after"]}
    return script(
        "undo_timer",
        stdin,
        **_records(user),
        **{"file": path, **sums, "again": after["again"], "confirm": str(confirm_seconds)},
        record=_record(path),
        undo=_undoing(path, user, then, **sums),
        then=then,
        run=as_run(name, **given),
    )


def _records(user: str) -> dict[str, str]:
    """Return the variables of pending.sh."""
    return {"pending": PENDING, "user": "" if _is_root(user) else user, "as_user": AS_USER}


def _key(path: str) -> str:
    """Return the prefix of the names of a file's records."""
    return sum_of(path)[:16]


def _record(path: str) -> str:
    return f"{PENDING}/{_key(path)}-{backups().rpartition('/')[2]}"


def _undoing(path: str, user: str, then: str, **sums: str) -> str:
    """Return the script of a record."""
    undo = as_run("undo", file=path, mark=backups().rpartition("/")[2], **sums)
    given = {**_records(user), "record": _record(path), "undo": undo, "then": then}
    return as_run("pending", **given) + text("put_back")


def _is_root(user: str) -> bool:
    """Whether a file belongs to root or the system: no other user can replace it by a link."""
    return user in ("", "root")


def confirm(path: str, after: str = "", user: str = "") -> Script:
    """Return the command that keeps a replacement permanently, also one of an earlier run.

    `after` is the sha256 that was written: another run may have confirmed it already.
    """
    return _settle("keep", path, user, as_run("confirm", file=path, after=after))


def restore(path: str, user: str = "") -> Script:
    """Return the command that restores `path` as it was before the unconfirmed replacement.

    Then it runs what belongs to an undone change.
    """
    return _settle("restore", path, user, as_run("restore", file=path))


def reread(path: str) -> Script:
    """Return the command that makes a daemon read an unconfirmed file as it is now."""
    return _settle("reread", path, "", "")


def _settle(action: str, path: str, user: str, run: str) -> Script:
    given = {"action": action, "file": path, "key": _key(path), "run": run}
    return script("settle", **_records(user), **given)


def unread(path: str, old: FileContent) -> FunctionCommand:
    """Return the command that fails if a file could not be read: no file is written blindly."""
    return FunctionCommand(refuse_unread, [path, old["problem"]], {})


def refuse_unread(state: State, host: Host, path: str, problem: str) -> bool:
    """Report why a file is not changed."""
    logger.error(
        f"{host.print_prefix}{path}: cannot be read, so it stays as it is: {visible(problem)}"
    )
    return False


def sum_of(text: str) -> str:
    """Return the sha256 of a file's text (Latin-1)."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def _printf_format(text: str) -> str:
    """Return one line that printf(1) turns into `text`, whatever its bytes are."""
    plain = set(range(0x20, 0x7F)) - set(b"%\\-")
    coded = (chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode("latin-1"))
    return "".join(coded)
