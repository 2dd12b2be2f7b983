"""Packs files into a tar.gz that is the same, byte for byte, on every machine and Python."""

import io
import struct
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

EPOCH = 1674000000
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
BLOCK = 0xFFFF


@dataclass(frozen=True)
class Member:
    """One file to pack: its path in the archive, its mode and its content."""

    path: str
    mode: int
    content: bytes


def pack(members: Iterable[Member]) -> bytes:
    """A gzipped USTAR archive of the members, sorted, with their directories before them."""
    return gzip_stored(tar(members))


def tar(members: Iterable[Member]) -> bytes:
    """A USTAR archive that depends on no user, time or machine."""
    ordered = sorted(members, key=lambda member: member.path)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for directory in directories(member.path for member in ordered):
            archive.addfile(entry(directory, 0o755, directory=True))
        for member in ordered:
            info = entry(member.path, member.mode)
            info.size = len(member.content)
            archive.addfile(info, io.BytesIO(member.content))
    return out.getvalue()


def directories(paths: Iterable[str]) -> list[str]:
    """Every directory above the paths, parents first."""
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")[:-1]
        found.update("/".join(parts[: count + 1]) for count in range(len(parts)))
    return sorted(found)


def entry(path: str, mode: int, directory: bool = False) -> tarfile.TarInfo:
    """A tar header owned by root with a fixed date."""
    info = tarfile.TarInfo(path)
    info.mode, info.mtime = mode, EPOCH
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.type = tarfile.DIRTYPE if directory else tarfile.REGTYPE
    return info


def gzip_stored(data: bytes) -> bytes:
    """The data as gzip without compression: releases of zlib differ in what they compress to."""
    out = bytearray(HEADER)
    starts = range(0, len(data), BLOCK) or [0]
    for start in starts:
        block = data[start : start + BLOCK]
        last = start + BLOCK >= len(data)
        out += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF)
        out += block
    return bytes(out + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
