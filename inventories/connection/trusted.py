"""Which host keys known_hosts trusts for a name, as OpenSSH reads it: pinned, signed, revoked."""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from paramiko import PKey, SSHException
from paramiko.pkey import UnknownKeyType

from gpu_node.inventories.connection.known_hosts import is_among, lines_of, read

# Read after the user's file: a key revoked there is revoked for all users.
GLOBAL = Path("/etc/ssh/ssh_known_hosts")
_LINE = re.compile(
    r"[ \t]*(?:(@\S+)[ \t]+)?([^#@\s]\S*)[ \t]+([A-Za-z0-9@.-]+)[ \t]+([A-Za-z0-9+/=]+)(?:\s.*)?",
    re.DOTALL,
)
# A name, an address, or one with a port: no wildcard, no ! and no hash.
_PLAIN = re.compile(r"[A-Za-z0-9._:%\[\]-]+")
_PORT = re.compile(r"\[(.*)\]:\d+")


@dataclass(frozen=True)
class Trusted:
    """The keys that are pinned for a name, the authorities for it, and what is revoked for it."""

    pinned: tuple[PKey, ...]
    authorities: tuple[PKey, ...]
    # As ssh sends them.
    revoked: frozenset[bytes]


def trusted(files: Sequence[str], name: str) -> Trusted:
    """Return what known_hosts files say of the name that a connection looks up.

    SSHException: one of them cannot be read, so that it is not known what it revokes.
    """
    pinned: list[PKey] = []
    authorities: list[PKey] = []
    revoked: set[bytes] = set()
    for marker, patterns, kind, blob in _entries(files, {name, without_port(name)}):
        raw = _decoded(blob)
        if raw is None:
            continue
        if marker == "@revoked":
            if any(is_among(patterns, each) for each in (name, without_port(name))):
                revoked.add(raw)
        elif is_among(patterns, name) and (key := _key(kind, raw)) is not None:
            if marker == "@cert-authority":
                authorities.append(key)
            elif not marker:
                pinned.append(key)
    barred = {each.asbytes() for each in (*pinned, *authorities)} & revoked
    return Trusted(
        tuple(each for each in pinned if each.asbytes() not in barred),
        tuple(authority for authority in authorities if authority.asbytes() not in barred),
        frozenset(revoked),
    )


def revoked_keys(text: str, names: Collection[str]) -> list[str]:
    """Return the keys, as `kind key`, that a known_hosts text or the system's file revokes.

    `names` are what a server goes by; what is revoked for it without a port is revoked. Raises
    OSError.
    """
    entries, *_ = _index(f"{text}\n{read(GLOBAL)}")
    plain = {*names, *map(without_port, names)}
    return [
        f"{entry.kind} {entry.blob}"
        for entry in entries
        if entry.marker == "@revoked" and any(is_among(entry.patterns, name) for name in plain)
    ]


def without_port(name: str) -> str:
    """Return the host of a name in known_hosts."""
    match = _PORT.fullmatch(name)
    return match[1] if match else name


class _Entry(NamedTuple):
    marker: str
    patterns: list[str]
    kind: str
    blob: str


def _entries(files: Sequence[str], names: Collection[str]) -> Iterator[_Entry]:
    """Yield what lines may say of names; of the system's file what it revokes."""
    for file in files:
        yield from _entries_of(Path(file), names)
    if str(GLOBAL) not in files:
        yield from (each for each in _entries_of(GLOBAL, names) if each.marker == "@revoked")


def _entries_of(file: Path, names: Collection[str]) -> Iterable[_Entry]:
    try:
        text = read(file)
    except OSError as error:
        raise SSHException(f"cannot read {file}: {error.strerror}") from None
    lines, by_name, by_pattern = _index(text)
    places = set(by_pattern).union(*(by_name.get(name.lower(), ()) for name in names))
    return [lines[place] for place in sorted(places)]


@lru_cache(maxsize=8)
def _index(text: str) -> tuple[list[_Entry], dict[str, list[int]], list[int]]:
    """Return the lines of a file, the places of each plain name, and those of all other patterns.

    For N nodes, N connections would match N lines each.
    """
    matches = (_LINE.fullmatch(line) for line in lines_of(text))
    lines = [
        _Entry(each[1] or "", each[2].split(","), each[3], each[4]) for each in matches if each
    ]
    by_name: dict[str, list[int]] = defaultdict(list)
    by_pattern: list[int] = []
    for place, line in enumerate(lines):
        if all(_PLAIN.fullmatch(pattern) for pattern in line.patterns):
            for pattern in line.patterns:
                by_name[pattern.lower()].append(place)
        else:
            by_pattern.append(place)
    return lines, dict(by_name), by_pattern


def _decoded(blob: str) -> bytes | None:
    try:
        return base64.b64decode(blob, validate=True)
    except binascii.Error:
        return None


def _key(kind: str, raw: bytes) -> PKey | None:
    try:
        return PKey.from_type_string(kind, raw)
    except (UnknownKeyType, SSHException, ValueError, IndexError):
        return None
