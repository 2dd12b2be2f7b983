"""The logs that are read: files, folders, gz and stdin, each bounded."""

import errno
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from typing_extensions import override

from gpu_node.diagnose.limited import Meter
from gpu_node.inventories import regular_file
from gpu_node.inventories.errors import reason, shown, worded

STDIN = "-"
# Of a log the last bytes count: a longer file is read from there; a longer stream is cut off.
MOST_BYTES = 4 * 1024**3
MOST_FILES, _MOST_DEPTH = 10_000, 8
_BLOCK, _PART = 4 * 1024 * 1024, 64 * 1024
_GZ = b"\x1f\x8b"
_UTF_16, _PACKED = (b"\xff\xfe", b"\xfe\xff"), (b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
# At most so many of a text's bytes are zeros: one of 16.
_FEW = 16
# Of other files in a folder nothing is expected.
_OF_LOGS = (".log", ".out", ".err", ".txt", ".xz", ".zst", ".zip")
_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
# torchrun --log-dir writes RUN/attempt_0/RANK/stderr.log.
# Of a folder the pickles that torch's flight recorder may have written; others are a job's own.
_OF_RECORDER = re.compile(r"trace|flight|nccl", re.IGNORECASE)
_OF_RANK = re.compile(r"attempt_\d+/(\d+)/std(?:out|err)\.log|(?:^|[^A-Za-z])rank[-_]?(\d+)(?!\d)")
ALLOWED = "log files, folders of them, or - for stdin"


class LogError(ValueError):
    """A log that cannot be read: which, why, what is allowed, and what next."""

    def __init__(self, name: object, why: str, then: str = "") -> None:
        super().__init__(name, why, then)

    @override
    def __str__(self) -> str:
        name, why, then = self.args
        return worded(shown(str(name)), why, ALLOWED, then)


@dataclass(frozen=True)
class Log:
    """A log by its name, as a user knows it, and the rank that the name states.

    Without a path it is stdin, or `data`. `file` is the device and inode of what was found there:
    the owner of a folder may put another file in its place before it is read.
    """

    name: str
    path: Path | None
    rank: int | None = None
    pickled: bool = False
    data: bytes | None = None
    file: tuple[int, int] | None = None


def logs(given: tuple[str, ...]) -> tuple[list[Log], list[str]]:
    """Return the logs that words name, and what of them cannot be read, and why."""
    found: list[Log] = []
    left: list[str] = []
    for word in dict.fromkeys(given):
        if not word:
            raise LogError(word, "an empty name", "check the variable that it comes from")
        if word == STDIN:
            found.append(Log("stdin", None))
            continue
        path = Path(word)
        if path.is_dir():
            before = len(found)
            _add_folder(path, found, left)
            if len(found) == before:
                raise LogError(word, "; ".join(left) or "a folder without a log", "name the files")
        elif path.is_file():
            try:
                log, why = _log(path)
            except OSError as error:
                raise LogError(path, reason(error), "check its mode and owner") from None
            if why and len(given) == 1:
                raise LogError(path, why, "unpack it, or convert it: iconv -f UTF-16 -t UTF-8 LOG")
            if why:
                left.append(f"{path}: {why}")
            else:
                found.append(log)
        else:
            is_there = path.exists()
            raise LogError(word, "neither a file nor a folder" if is_there else "no such file")
    return found, left


def _add_folder(folder: Path, found: list[Log], left: list[str]) -> None:
    for path, at in _files(folder, left):
        if len(found) >= MOST_FILES:
            left.append(f"{folder}: only the first {MOST_FILES} files were read")
            return
        try:
            if path.is_symlink() and folder.resolve() in path.resolve().parents:
                continue  # `latest.log`: the file itself is read
            if path.is_symlink():
                left.append(f"{path}: a link; name the file that it leads to")
            elif path.is_file() and path.stat().st_size:
                log, why = _log(path, at)
                if log.pickled and not _OF_RECORDER.search(path.name):
                    continue
                if log.pickled or not why:
                    found.append(log)
                elif path.suffix in _OF_LOGS:
                    left.append(f"{path}: {why}")
        except OSError as error:
            left.append(f"{path}: {reason(error)}")


def _files(
    folder: Path, left: list[str], parent: int | None = None, depth: int = 0
) -> Iterator[tuple[Path, int]]:
    """Yield the path of each file below a folder, with the descriptor of the folder that it is in.

    By its path another file could be opened: their owner may rename folders meanwhile.
    """
    at = -1
    try:
        path, no_link = (folder, 0) if parent is None else (folder.name, os.O_NOFOLLOW)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_link
        at = os.open(path, flags, dir_fd=parent)
        with os.scandir(at) as entries:
            rows = sorted(entries, key=lambda each: each.name)
        for each in rows:
            if not each.is_dir():
                yield folder / each.name, at
        below = [each.name for each in rows if each.is_dir(follow_symlinks=False)]
        if below and depth >= _MOST_DEPTH:
            left.append(f"{folder}: more than {_MOST_DEPTH} folders deep")
            return
        for name in below:
            yield from _files(folder / name, left, at, depth + 1)
    except OSError as error:
        left.append(f"{folder}: {reason(error)}")
    finally:
        if at >= 0:
            os.close(at)


def _log(path: Path, at: int | None = None) -> tuple[Log, str]:
    """Return a log, in the folder `at` if one is given, and why it is no text."""
    match = _OF_RANK.search(path.as_posix())
    rank = int((match[1] or match[2])[:6]) if match else None
    name = path if at is None else path.name
    with regular_file.opened(name, at, follow=at is None) as file:
        head, found = file.read(4096), os.fstat(file.fileno())
    pickled = head.startswith(_PICKLE)
    log = Log(str(path), path, rank, pickled, file=(found.st_dev, found.st_ino))
    return log, _why_no_text(head)


def _why_no_text(head: bytes) -> str:
    """Return why a file is no text; a log has some zeros, and begins with them if it was cut."""
    if head.startswith(_UTF_16):
        return "UTF-16, not UTF-8"
    zeros = head.lstrip(b"\0").count(b"\0")
    is_read = head.startswith((_GZ, *_PICKLE)) or zeros * _FEW <= len(head)
    return "" if is_read and not head.startswith(_PACKED) else "not a text"


@contextmanager
def _opened(log: Log) -> Iterator[tuple[io.BufferedIOBase, io.BufferedReader | None]]:
    """Yield what a log is read from, and the file on disk that is its source, if there is one."""
    if log.path is None:
        given = sys.stdin.buffer if log.data is None else io.BytesIO(log.data)
        yield cast(io.BufferedIOBase, given), None
        return
    with regular_file.opened(log.path) as file:
        now = os.fstat(file.fileno())
        if log.file not in (None, (now.st_dev, now.st_ino)):
            raise OSError(errno.ESTALE, "another file is in its place now", str(log.path))
        if file.read(2) == _GZ:
            file.seek(0)
            yield gzip.GzipFile(fileobj=file), file
            return
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MOST_BYTES))
        yield file, file


def blocks(log: Log, lost: list[str], meter: Meter) -> Iterator[bytes]:
    """Yield the bytes of a log, at most MOST_BYTES; what is not read is added to `lost`."""
    left, block, taken = MOST_BYTES, bytearray(), 0
    try:
        with _opened(log) as (file, source):
            begin = source.tell() if source else 0
            if begin:
                lost.append(f"{log.name}: all but its last {MOST_BYTES >> 30} GiB")
            # The holes of a file cost its owner nothing.
            most = os.fstat(source.fileno()).st_blocks * 512 if source else MOST_BYTES
            while left > 0 and (part := file.read1(min(_PART, left))):
                left -= len(part)
                block += part
                now = min(most, source.tell() - begin if source else MOST_BYTES - left)
                meter.read(now - taken)
                taken = now
                if len(block) >= _BLOCK:
                    yield bytes(block)
                    block.clear()
            if not left and file.read1(1):
                lost.append(f"{log.name}: what follows {MOST_BYTES >> 30} GiB")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        lost.append(f"{log.name}: what follows the damage of this gz")
    except OSError as error:
        if log.path is None:
            raise LogError(log.name, reason(error)) from None
        lost.append(f"{log.name}: {reason(error)}")
    yield bytes(block)
