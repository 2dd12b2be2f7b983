"""Replaces a file on a node: backup once a run, write a new file beside it, check, rename."""

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from gpu_node.deploy.engine.scripts import Script, as_run, script
from gpu_node.facts.limits import confirmed, unsettled
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent
from gpu_node.facts.probe.records import ABSENT as ABSENT
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
# Returns the new content of a file from the current one; raises ValueError with the reason if it
# cannot.
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
            try:
                if old["problem"]:
                    raise ValueError(old["problem"])
                command = self.then(old)
            except ValueError as error:  # as it is now, it cannot be edited
                return refuse_unread(state, host, self.path, str(error)), output
            done, output = Script.run(command, state, host, given)
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
    mode: str = "644",
) -> StringCommand:
    """Return the command that replaces `path`, whose content is `old`, by `new` (Latin-1).

    `check` is sh that gets the new and the old file as $1 and $2 and refuses by failing. With
    `confirm_seconds` the node undoes the change unless `confirm` runs in time, and after undoing it
    runs `then`, also sh: a daemon may have to read the file again. The content is sent by stdin: an
    argument would show it, and passwords in it, to all users. A file in the home of a `user` is
    written as that user, unless it belongs to root. With `again`, which returns the new text for
    another content, a file that another run has written meanwhile is read again. `mode` is that of
    a new file: 644, or 600 in a folder that only its owner may enter.
    """

    def command(old: FileContent, new: str) -> Script:
        before = sum_of(old["text"]) if old["exists"] else ABSENT
        change = _Change(path, user, mode, before, sum_of(new))
        rest = {"check": check, "again": "no" if again is None else "yes"}
        return change.script(confirm_seconds, then, stdin=printf_format(new), **rest)

    first = command(old, new)
    if again is None:
        return first
    return Replacement(first, path, user, lambda now: command(now, again(now["text"])))


def put_back(
    path: str,
    user: str,
    before: str,
    after: str,
    copy: str,
    confirm_seconds: int = 0,
    then: str = "",
    mode: str = "644",
    owners: str = "",
) -> Script:
    """Return the command that has a file hold what a `copy` on the node holds.

    `before` and `after` are the sha256, or "absent": then it is removed, and `copy` is an empty
    file. `owners` are UID:GID of a new file of root. The others are those of `replace`.
    """
    return _Change(path, user, mode, before, after, owners).script(confirm_seconds, then, copy=copy)


@dataclass(frozen=True)
class _Change:
    """A change of one file, and how it is undone: both are written by write.sh."""

    path: str
    user: str
    mode: str
    before: str
    after: str
    owners: str = ""

    def script(
        self,
        seconds: int,
        then: str,
        check: str = "",
        again: str = "no",
        copy: str = "",
        stdin: str | None = None,
    ) -> Script:
        """Return the script that replaces the file."""
        write = self._writing(self.before, self.after, check, "nothing was changed")
        given = {"before": self.before, "after": self.after, "backups": backups(), "again": again}
        record = {"confirm": str(seconds), "record": "", "undo": "", "then": then}
        if seconds:
            if not confirmed.is_confirmed(self.path):
                raise ValueError(f"{self.path} is not in facts/limits/confirmed.py: add it there")
            folder = f"{PENDING}/{_key(self.path)}-{backups().rpartition('/')[2]}"
            record |= {"record": folder, "undo": self._undoing(folder, then)}
        words = {**_records(self.path, self.user), **given, **record, "write": write, "copy": copy}
        return script("replace", stdin, **words)

    def _writing(self, before: str, after: str, check: str, unchanged: str) -> str:
        owner = self.user or "root"
        words = {"file": self.path, "before": before, "after": after, "mode": self.mode}
        words["owners"] = self.owners
        return as_run("write", **words, check=check, owner=owner, unchanged=unchanged)

    def _undoing(self, record: str, then: str) -> str:
        write = self._writing(self.after, self.before, "", "it could not be restored")
        words = _records(self.path, self.user)
        return as_run("undo", **words, record=record, write=write, then=then)


def _records(path: str, user: str) -> dict[str, str]:
    """Return the variables of pending.sh, and a file with the beginning of its records' names."""
    # No other user can replace a file of root, or of the system, by a link.
    account = "" if user == "root" else user
    words = {"pending": PENDING, "user": account, "as_user": AS_USER}
    return {**words, "file": path, "key": _key(path)}


def _key(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def confirm(path: str, after: str = "", user: str = "") -> Script:
    """Return the command that keeps a replacement permanently, also one of an earlier run.

    `after` is the sha256 that was written: another run may have confirmed it already.
    """
    return _settle("keep", path, user, after)


def restore(path: str, user: str = "") -> Script:
    """Return the command that restores `path` as it was before the unconfirmed replacement.

    Then it runs what belongs to an undone change.
    """
    return _settle("restore", path, user)


def reread(path: str) -> Script:
    """Return the command that makes a daemon read an unconfirmed file as it is now."""
    return _settle("reread", path, "")


def _settle(action: str, path: str, user: str, after: str = "") -> Script:
    return script("settle", **_records(path, user), action=action, after=after)


def unread(path: str, problem: str) -> FunctionCommand:
    """Return the command that fails if a file could not be read: no file is written blindly."""
    return FunctionCommand(refuse_unread, [path, problem], {})


def refuse_unread(state: State, host: Host, path: str, problem: str) -> bool:
    """Report why a file is not changed."""
    logger.error(
        f"{host.print_prefix}{path}: cannot be read, so it stays as it is: {visible(problem)}"
    )
    return False


def sum_of(text: str) -> str:
    """Return the sha256 of a file's text (Latin-1)."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def printf_format(text: str) -> str:
    """Return one line that printf(1) turns into `text`, whatever its bytes are."""
    plain = set(range(0x20, 0x7F)) - set(b"%\\-")
    coded = (chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode("latin-1"))
    return "".join(coded)
