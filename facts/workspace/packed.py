"""Lists of files by rsync: their lines, and how they are packed and unpacked, with limits."""

import base64
import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence

from gpu_node.facts.probe.protocol import Unreadable

# The files, and the bytes of text, that are read of a node's list of a workspace.
MOST_ENTRIES, MOST_LISTED = 500_000, 96 * 1024 * 1024
_TOO_LONG = (
    "the list has more than {}: leave folders that hold data out of the workspace (exclude in the "
    "inventory)"
)
_AT_ONCE, _LINES_AT_ONCE = 1024 * 1024, 1000
# A path has 4096 bytes, and rsync writes at most four characters for each.
_MOST_OF_A_LINE = 64 * 1024
# The format of gzip, or of zlib.
_ANY_HEADER = zlib.MAX_WBITS | 32


def require_short(entries: int) -> None:
    """Raise Unreadable if a list has more entries than the limit."""
    if entries > MOST_ENTRIES:
        raise Unreadable(_TOO_LONG.format(f"{MOST_ENTRIES} files"))


def broken(why: object) -> Unreadable:
    """Return the error of a list of files that cannot be read."""
    return Unreadable(f"the list of files is broken: {why}")


def unpacked(packed: bytes, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of compressed text, of which only some MiB are in memory at a time.

    Raises Unreadable if it becomes longer than the limit for a list of files.
    """
    stream, begun, size = zlib.decompressobj(_ANY_HEADER), b"", 0
    while not stream.eof:
        try:
            part = stream.decompress(packed, _AT_ONCE)
        except zlib.error as error:
            raise broken(error) from error
        packed, size = stream.unconsumed_tail, size + len(part)
        if size > MOST_LISTED:
            raise Unreadable(_TOO_LONG.format(f"{MOST_LISTED // 1024 // 1024} MiB"))
        if not (part or packed or stream.eof):
            raise broken("it was cut off")
        *lines, begun = (begun + part).split(b"\n")
        if len(begun) > _MOST_OF_A_LINE:
            raise broken("a line of it does not end")
        yield from (line.decode(encoding, "backslashreplace") for line in lines)
    if begun:
        yield begun.decode(encoding, "backslashreplace")


def pack(lines: Sequence[str]) -> tuple[str, str]:
    """Return the digest of a list, and the list compressed."""
    digest, stream, parts = hashlib.sha256(), zlib.compressobj(6), []
    for start in range(0, len(lines), _LINES_AT_ONCE):
        text = "\n".join(lines[start : start + _LINES_AT_ONCE])
        data = f"\n{text}".encode() if start else text.encode()
        digest.update(data)
        parts.append(stream.compress(data))
    parts.append(stream.flush())
    return digest.hexdigest(), base64.b64encode(b"".join(parts)).decode("ascii")


# Pipes, sockets and devices, which are not sent.
SPECIAL = frozenset("pscb")
# A line of rsync: kind and mode, size, date, time, path.
_LINE = re.compile(r"([-dlpscb])([-rwxsStT]{9})\S* +(\d{1,18}) (\d{4}/[\d/]{5}) ([\d:]{8}) (.*)")
# Setuid and setgid of a file are not copied, so they are not compared.
_NO_SETUID = str.maketrans("sS", "x-")


def entry_of(line: str) -> tuple[str, str, int | None] | None:
    """Return the path, what is compared, and a file's bytes; None if the line is not an entry."""
    match = _LINE.fullmatch(line)
    # The mode of the folder itself is set by `directories`, if at all.
    if match is None or match[6] == ".":
        return None
    kind, mode, size, day, time, path = match.groups()
    if kind == "d":
        return path, f"d {mode}", None
    if kind == "l":
        name, _, target = path.partition(" -> ")
        return name, "l " + target.replace("\t", " "), None  # a tab ends a path
    if kind in SPECIAL:
        return path, kind, None
    return path, f"- {mode.translate(_NO_SETUID)} {size} {day} {time}", int(size)
