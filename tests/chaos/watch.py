"""Prints each content that some files have, as lines of JSON, until stdin has a line.

    python3 watch.py FILE...

The kernel reports each change in the folders of the files (inotify), also one that is undone at
once. `written` is the content of a file into which a program wrote: a reader could see a part of
it. A file that is renamed into place never is.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import select
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
HEAD = struct.Struct("iIII")


class Folders:
    """The folders of some files, as the kernel watches them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self.descriptor = self._libc.inotify_init()
        self._names: dict[int, str] = {}

    def add(self, folder: str) -> None:
        """Watch a folder too, if it exists."""
        mask = MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE
        number = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        if number >= 0:
            self._names[number] = folder

    def changes(self) -> Iterator[tuple[str, int]]:
        """Yield what has changed since the last call: each path, and how."""
        while select.select([self.descriptor], [], [], 0)[0]:
            events = os.read(self.descriptor, 1 << 16)
            while events:
                number, mask, _, length = HEAD.unpack_from(events)
                name = os.fsdecode(events[HEAD.size : HEAD.size + length].rstrip(b"\0"))
                events = events[HEAD.size + length :]
                yield f"{self._names.get(number, '')}/{name}", mask


def show(path: str, event: str) -> None:
    """Print what a file contains now; null if it does not exist."""
    try:
        content = base64.b64encode(Path(path).read_bytes()).decode()
    except OSError:
        content = None
    found = {"event": event, "file": path, "content": content}
    print(json.dumps(found), flush=True)


def watch(files: Sequence[str]) -> None:
    """Print the contents of the files until stdin has a line."""
    folders = Folders()
    missing = {path for path in map(os.path.dirname, files) if not Path(path).is_dir()}
    # A folder may appear later.
    for folder in {*map(os.path.dirname, files), *map(os.path.dirname, missing)}:
        folders.add(folder)
    for path in files:
        show(path, "first")
    print(json.dumps({"event": "ready"}), flush=True)
    ended = False
    while not ended:
        ready, _, _ = select.select([sys.stdin, folders.descriptor], [], [])
        ended = sys.stdin in ready
        for path, mask in folders.changes():
            if path in missing and mask & CREATE:
                folders.add(path)
                for file in files:
                    if os.path.dirname(file) == path:
                        show(file, "replaced")
            elif path in files:
                show(path, "written" if mask & MODIFY else "replaced")


if __name__ == "__main__":
    watch(sys.argv[1:])
