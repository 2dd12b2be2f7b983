"""Files: the exact bytes of one file, for operations that edit it and leave all else as it was."""

from __future__ import annotations

from typing import TypedDict

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

BEGIN = "@@gpu-node file"


class FileContent(TypedDict):
    """Whether the file exists, and its bytes, one character (U+0000-U+00FF) each."""

    exists: bool
    text: str


class FileBytes(FactBase[FileContent]):
    """Returns {"exists": True, "text": "..."}, `text` decoded as Latin-1: byte for byte.

    It travels as hex, so that no byte is lost and no half answer looks whole.
    """

    @staticmethod
    @override
    def default() -> FileContent:
        return {"exists": False, "text": ""}

    @override
    def command(self, path: str) -> StringCommand:
        file = QuoteString(path)
        return StringCommand(
            f"echo '{BEGIN}'; if [ -e",
            file,
            "]; then od -An -v -tx1 <",
            file,
            "&& echo whole; else echo absent; fi",
        )

    @override
    def process(self, output: list[str]) -> FileContent:
        if BEGIN in output:  # what stands before it, a talkative ~/.bashrc said
            output = output[output.index(BEGIN) + 1 :]
        if output == ["absent"]:
            return {"exists": False, "text": ""}
        if not output or output[-1] != "whole":
            raise FactProcessError(f"{self.name}: the answer is cut short: {output[-1:]}")
        try:
            data = bytes.fromhex("".join(output[:-1]))
        except ValueError as error:
            raise FactProcessError(f"{self.name}: {error}") from error
        return {"exists": True, "text": data.decode("latin-1")}
