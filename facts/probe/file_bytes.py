"""Files: the exact bytes of one file, for operations that edit it and leave all else as it was."""

from __future__ import annotations

import shlex
from typing import TypedDict

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from facts.mesh import AS_USER

BEGIN = "@@gpu-node file"


class FileContent(TypedDict):
    """Whether the file exists, and its bytes, one character (U+0000-U+00FF) each.

    `problem` says why they could not be read; it is empty where they were.
    """

    exists: bool
    text: str
    problem: str


class FileBytes(FactBase[FileContent]):
    """Returns {"exists": True, "text": "...", "problem": ""}, `text` as Latin-1: byte for byte.

    It travels as hex, so that no byte is lost and no half answer looks whole. A failure is part of
    the answer: pyinfra would hand on `default` for it, and where the last host fails, a traceback.
    """

    @staticmethod
    @override
    def default() -> FileContent:
        return _unread("the node gave no answer about it")

    @override
    def command(self, path: str, user: str = "") -> StringCommand:
        """Return sh that reads `path`; a file in the home of a `user` is read as that user."""
        file = shlex.quote(path)
        ask = (
            f"printf '\\n%s\\n' '{BEGIN}'; if [ -e {file} ]; then "
            f"od -An -v -tx1 <{file} 2>&1 && echo whole || echo failed; else echo absent; fi"
        )
        if user in ("", "root"):
            return StringCommand(ask)
        return StringCommand(f"user={shlex.quote(user)}\n{AS_USER}as_user {shlex.quote(ask)}")

    @override
    def process(self, output: list[str]) -> FileContent:
        if BEGIN not in output:
            return _unread(f"the login shell ended before it was read: {output[-1:]}")
        answer = output[output.index(BEGIN) + 1 :]  # before it stands what ~/.bashrc says
        if answer == ["absent"]:
            return {"exists": False, "text": "", "problem": ""}
        if not answer or answer[-1] != "whole":
            failed = answer[-1:] == ["failed"]
            return _unread(" ".join(answer[:-1]) if failed else "the answer is cut short")
        try:
            data = bytes.fromhex("".join(answer[:-1]))
        except ValueError as error:
            return _unread(f"the answer is not understood: {error}")
        return {"exists": True, "text": data.decode("latin-1"), "problem": ""}


def _unread(problem: str) -> FileContent:
    return {"exists": False, "text": "", "problem": problem}
