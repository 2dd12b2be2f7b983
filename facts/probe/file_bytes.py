"""The exact bytes of one file, for operations that edit it and preserve the rest."""

from typing import TypedDict

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from gpu_node.facts.probe.shell import MOST_OF_USERS_FILE, assigned, shell
from gpu_node.facts.probe.training_user import as_training_user

BEGIN = "@@gpu-node file"
# Larger than all edited files of the system; reading a pipe or a device would not end. Of a file
# that belongs to a user no more is edited than the probe reads.
MOST_BYTES = 16 << 20


def _ask(most: int) -> str:
    bounds = {"too_many": most + 1, "most": most, "most_mib": most >> 20}
    return shell("probe/file_bytes", begin=BEGIN, **bounds)


class FileContent(TypedDict):
    """Whether the file exists, and its bytes, one character (U+0000-U+00FF) each.

    `problem` is the reason why they could not be read; empty if they were read.
    """

    exists: bool
    text: str
    problem: str


class FileBytes(FactBase[FileContent]):
    """Returns {"exists": True, "text": "...", "problem": ""}, `text` as Latin-1: byte for byte.

    It is sent as hex, so that no byte is lost and a partial answer is detected. A failure is part
    of the answer: pyinfra would return `default` for it, or a traceback if the last host fails.
    """

    @staticmethod
    @override
    def default() -> FileContent:
        return _unread("the node gave no answer about it")

    @override
    def command(self, path: str, user: str = "") -> StringCommand:
        """Return sh that reads `path`; a file in the home of a `user` is read as that user."""
        if user in ("", "root"):
            return StringCommand(assigned(file=path) + _ask(MOST_BYTES))
        script = assigned(file=path) + _ask(MOST_OF_USERS_FILE)
        return StringCommand(as_training_user(user, script))

    @override
    def process(self, output: list[str]) -> FileContent:
        if BEGIN not in output:
            return _unread(f"the login shell ended before the file was read: {output[-1:]}")
        answer = output[output.index(BEGIN) + 1 :]  # before it is the output of ~/.bashrc
        if answer == ["absent"]:
            return {"exists": False, "text": "", "problem": ""}
        if not answer or answer[-1] != "whole":
            failed = answer[-1:] == ["failed"]
            why = " ".join(answer[:-1]) or "it cannot be opened"
            return _unread(why if failed else "the answer is cut short")
        try:
            data = bytes.fromhex("".join(answer[:-1]))
        except ValueError as error:
            return _unread(f"the answer is not understood: {error}")
        return {"exists": True, "text": data.decode("latin-1"), "problem": ""}


def _unread(problem: str) -> FileContent:
    return {"exists": False, "text": "", "problem": problem}
