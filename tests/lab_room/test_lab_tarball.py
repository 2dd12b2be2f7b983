"""The mirror's tarball is the same on every machine, and tar reads it."""

import gzip
import hashlib
import io
import tarfile

import pytest

from gpu_node.lab.tarball import BLOCK, Member, gzip_stored, pack

MEMBERS = [
    Member("top/share/notes.txt", 0o644, b"notes\n"),
    Member("top/bin/tool", 0o755, b"\x7fELF" + b"x" * 3 * BLOCK),
]


def test_order_of_members_changes_nothing() -> None:
    assert pack(MEMBERS) == pack(reversed(MEMBERS))


def test_bytes_are_pinned() -> None:
    found = hashlib.sha256(pack(MEMBERS)).hexdigest()
    assert found == "12fb4f2ae9aa413be178ab8551a77eb358bb22252727f1d75242a54d41c11183"


def test_tar_reads_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(MEMBERS)), mode="r:gz") as archive:
        names = archive.getnames()
        tool = archive.getmember("top/bin/tool")
    assert names == ["top", "top/bin", "top/share", "top/bin/tool", "top/share/notes.txt"]
    assert (tool.mode, tool.uid, tool.uname, tool.size) == (0o755, 0, "root", 4 + 3 * BLOCK)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_stored_gzip_is_gzip(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert gzip.decompress(gzip_stored(data[:size])) == data[:size]
