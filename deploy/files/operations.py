"""Operations on files of the system: how each edits one, and the one that writes all of it."""

from collections.abc import Callable, Generator, Iterable
from typing import Literal

from pyinfra import host
from pyinfra.api import FunctionCommand, StringCommand, operation

from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.files.changes import changed_lines
from gpu_node.deploy.files.replace import Edit, replace, unread
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent

Command = StringCommand | FunctionCommand
Commands = Generator[Command, None, None]


def edited(
    path: str,
    edit: Edit,
    done: str = "is as wanted",
    *,
    absent: Literal["differs", "empty", "refused"] = "differs",
    user: str = "",
    check: str = "",
    confirm_seconds: int = 0,
    then: str = "",
    shown: Callable[[str], str] = str,
) -> Generator[Command, None, str | None]:
    """Yield what replaces a file by the result of `edit`; return that, or None if it stays.

    It stays if it is `done`, or cannot be read, or `edit` raises ValueError with the reason.
    `absent`: a file that does not exist is written, is as good as an empty one, or is a failure.
    `shown` returns the part of a text that a dry run shows. The others are those of `replace`.
    """
    old = host.get_fact(FileBytes, path=path, user=user)
    problem, new = old["problem"], ""
    if not problem and absent == "refused" and not old["exists"]:
        problem = "it does not exist"
    if not problem:
        try:
            new = edit(old["text"])
        except ValueError as error:
            problem = str(error)
    if problem:
        _keep([f"{path}: stays as it is: {problem}"])
        yield unread(path, problem)
        return None
    if new == old["text"] and (old["exists"] or absent == "empty"):
        host.noop(f"{path} {done}")
        return None
    keep_lines(path, old, new, shown)
    yield replace(path, old, new, check, confirm_seconds, user, then, again=edit)
    return new


def keep_lines(path: str, old: FileContent, new: str, shown: Callable[[str], str] = str) -> None:
    """Keep which lines of a file an operation will change, for what a dry run shows."""
    now = shown(old["text"]) if old["exists"] else None
    _keep(changed_lines(path, now, shown(new)))


def _keep(lines: Iterable[str]) -> None:
    if not host.state.is_executing:
        node_of(host).lines.setdefault(host.current_op_hash, []).extend(lines)


@operation()
def write(path: str, content: str, check: str = "") -> Commands:
    """
    Write a file that is all ours; nothing that reads it is restarted or reloaded.

    + path: the file, eg ``/etc/systemd/logind.conf.d/99-gpu-node.conf``
    + content: its text
    + check: sh that refuses a new file by failing, see ``replace``
    """
    yield from edited(path, lambda _: content, check=check)
