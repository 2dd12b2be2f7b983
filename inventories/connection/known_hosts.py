"""The controller's known_hosts: which keys are pinned for a node, and pinning another one."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from paramiko import HostKeys

from gpu_node.facts.globs import matches
from gpu_node.inventories.atomic_write import replace
from gpu_node.inventories.connection.ssh_config import destination
from gpu_node.inventories.regular_file import content

SSH_PORT = 22
_MOST_BYTES = 16_000_000
# Patterns, kind and key with the blanks around them; what follows is a comment.
_LINE = re.compile(r"([ \t]*)([^#@\s]\S*)([ \t]+)(\S+)([ \t]+)([^\s]+)(.*)", re.DOTALL)


def read(file: Path) -> str:
    """Return a known_hosts file, byte for byte: a comment in it may be in any encoding.

    One that is not there is empty. Raises OSError.
    """
    return content(file, _MOST_BYTES).decode("latin-1") if file.exists() else ""


def lookups(
    name: str, address: str, port: int | None, config_file: str | None = None
) -> tuple[str, ...]:
    """Return what a node goes by in known_hosts; a connection looks for the first of them.

    That is where ssh_config sends the address; without a `port` also by its port. Raises paramiko's
    SSHException for a bad ssh_config.
    """
    host, configured = destination(address, config_file)
    at = port or configured or SSH_PORT
    plain = dict.fromkeys((host, address, name))
    return tuple(each if at == SSH_PORT else f"[{each}]:{at}" for each in plain)


def keys_of(text: str, lookup: str) -> list[str]:
    """Return the keys, as `kind key`, that are pinned for what a connection looks for."""
    lines = (_LINE.fullmatch(line) for line in lines_of(text))
    return [
        f"{line[4]} {line[6]}"
        for line in lines
        if line and any(_is(pattern, lookup) for pattern in line[2].split(","))
    ]


def stale(pinned: Collection[str], offered: Collection[str]) -> list[str]:
    """Return the pinned keys of the kinds of which a node offers another key.

    All keys are `kind key`. OpenSSH takes any pinned key of a kind, and asks for the pinned kinds
    alone: a key of another kind beside them makes no difference.
    """
    other = {key.split()[0] for key in offered if key not in pinned}
    return [key for key in pinned if key.split()[0] in other]


def repinned(text: str, names: Collection[str], key: str, offered: Collection[str]) -> str:
    """Return known_hosts with `key` in place of a node's keys that it no longer offers.

    `names` are what the node goes by, the first of them what a connection looks for. Lines of
    others, comments, and keys that the node still offers stay byte for byte; of a line that the
    node shares with others its own names go into a line of their own.
    """
    done: set[str] = set()
    lines: list[str] = []
    for line in lines_of(text):
        match = _LINE.fullmatch(line)
        patterns = match[2].split(",") if match else []
        own = [pattern for pattern in patterns if any(_is(pattern, name) for name in names)]
        if not match or not own or f"{match[4]} {match[6]}" in offered:
            lines.append(line)
            if match and f"{match[4]} {match[6]}" == key:
                done.update(own)
            continue
        fresh = [each for each in own if each not in done]
        done.update(fresh)
        end = "" if match[7].endswith("\n") else "\n"
        others = [pattern for pattern in patterns if pattern not in own]
        if fresh:
            tail = "\n" if others else match[7]
            lines.append(f"{match[1]}{','.join(fresh)}{match[3]}{key}{tail}")
        if others:
            kept = f"{match[1]}{','.join(others)}{match[3]}{match[4]}{match[5]}{match[6]}{match[7]}"
            lines.append(kept + (end if fresh else ""))
    result = "".join(lines)
    first = next(iter(names))
    if key in keys_of(result, first):
        return result
    # Above a last line without its newline: that one keeps its bytes, and needs none of ours.
    whole = result.rfind("\n") + 1
    return f"{result[:whole]}{first} {key}\n{result[whole:]}"


def without(text: str, names: Collection[str]) -> str:
    """Return known_hosts without a node's names; lines of this node alone are removed.

    It takes back what `repinned` wrote for a node that was not there, byte for byte.
    """
    lines: list[str] = []
    for line in lines_of(text):
        match = _LINE.fullmatch(line)
        patterns = match[2].split(",") if match else []
        others = [pattern for pattern in patterns if not any(_is(pattern, name) for name in names)]
        if not match or others == patterns:
            lines.append(line)
        elif others:
            lines.append(match[1] + ",".join(others) + line[match.end(2) :])
    return "".join(lines)


def write(file: Path, text: str) -> None:
    """Replace a file as a whole; a link stays, and mode and owner are kept."""
    replace(file, text.encode("latin-1"))


def lines_of(text: str) -> list[str]:
    return re.split(r"(?<=\n)", text)


def _is(pattern: str, name: str) -> bool:
    """Whether a pattern is this very name, hashed or not; paramiko knows no wildcards."""
    if not pattern.startswith("|1|"):
        return pattern == name
    try:
        return HostKeys.hash_host(name, pattern) == pattern
    except (ValueError, IndexError):
        return False


def is_among(patterns: Collection[str], name: str) -> bool:
    """Whether patterns stand for a name, as ssh reads them."""
    plain = {pattern: pattern.removeprefix("!") for pattern in patterns}
    fitting = [each for each, own in plain.items() if is_like(own, name) or _is(own, name)]
    return bool(fitting) and not any(each.startswith("!") for each in fitting)


def is_like(pattern: str, name: str) -> bool:
    """Whether a pattern, which may have the wildcards * and ?, is for a name in any case."""
    return matches(name.lower(), pattern.lower(), sets=False)
