"""Pinning another host key: only a node's own lines change, whatever else the file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.inventories.connection.known_hosts import (
    keys_of,
    lookups,
    repinned,
    without,
    write,
)
from gpu_node.inventories.connection.trusted import revoked_keys

OLD, NEW, RSA = "ssh-ed25519 AAAAold", "ssh-ed25519 AAAAnew", "ssh-rsa AAAArsa"
NAMES = lookups("v100-01", "192.0.2.5", 22)
# `192.0.2.5`, hashed by ssh-keygen -H.
HASHED = "|1|Ue+4zJL9qtcpgJNnuUAQ14STIUE=|2pijek8YtxvO+Ehaf72qvHMChl0="

CASES = {
    "the only line": (f"192.0.2.5 {OLD}\n", f"192.0.2.5 {NEW}\n"),
    "by address and by name": (
        f"192.0.2.5 {OLD}\nv100-01 {OLD} lab\n",
        f"192.0.2.5 {NEW}\nv100-01 {NEW} lab\n",
    ),
    "no line yet, no newline at the end": (f"nas {OLD}", f"192.0.2.5 {NEW}\nnas {OLD}"),
    "an empty file": ("", f"192.0.2.5 {NEW}\n"),
    "others' bytes": (
        f"# zhang\r\n\n  nas\t{OLD}  # old\r\n192.0.2.5 {OLD}\r\n192.0.2.55 {OLD}\nm\xfcll",
        f"# zhang\r\n\n  nas\t{OLD}  # old\r\n192.0.2.5 {NEW}\r\n192.0.2.55 {OLD}\nm\xfcll",
    ),
    "a line shared with another": (
        f"nas,192.0.2.5 {OLD}\nx {OLD}",
        f"192.0.2.5 {NEW}\nnas {OLD}\nx {OLD}",
    ),
    "a shared line at the end": (f"nas,192.0.2.5 {OLD}", f"192.0.2.5 {NEW}\nnas {OLD}\n"),
    "old keys of several kinds": (
        f"192.0.2.5 {OLD}\n192.0.2.5 ecdsa-sha2-nistp256 AAAAold\n",
        f"192.0.2.5 {NEW}\n",
    ),
    "a key of another kind that it still has": (
        f"192.0.2.5 {RSA}\n192.0.2.5 {OLD}\n",
        f"192.0.2.5 {RSA}\n192.0.2.5 {NEW}\n",
    ),
    "hashed": (f"{HASHED} {OLD}\n", f"{HASHED} {NEW}\n"),
    "markers and wildcards are no pins": (
        f"@revoked 192.0.2.5 {OLD}\n192.0.2.* {OLD}\n",
        f"@revoked 192.0.2.5 {OLD}\n192.0.2.* {OLD}\n192.0.2.5 {NEW}\n",
    ),
    "pinned already": (f"192.0.2.5 {NEW}\n", f"192.0.2.5 {NEW}\n"),
    "another port is another sshd": (
        f"[192.0.2.5]:2222 {OLD}\n",
        f"[192.0.2.5]:2222 {OLD}\n192.0.2.5 {NEW}\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_a_new_key(before: str, after: str) -> None:
    """The new file, byte for byte; pinning once more changes nothing."""
    assert repinned(before, NAMES, NEW, [NEW, RSA]) == after
    assert repinned(after, NAMES, NEW, [NEW, RSA]) == after
    assert NEW in keys_of(after, NAMES[0])


# What is left when the node is forgotten.
FORGOTTEN = {
    "the only line": (f"192.0.2.5 {OLD}\n", ""),
    "by address, by name, and both": (
        f"192.0.2.5 {OLD}\nx {OLD}\nv100-01 {RSA} lab\n192.0.2.5,v100-01 {NEW}",
        f"x {OLD}\n",
    ),
    "a line shared with another": (
        f" nas,192.0.2.5,x\t{OLD}  # old\r\n",
        f" nas,x\t{OLD}  # old\r\n",
    ),
    "hashed": (f"{HASHED} {OLD}\n", ""),
    "markers, wildcards, another port, other nodes": (
        text := (
            f"@revoked 192.0.2.5 {OLD}\n192.0.2.* {OLD}\n[192.0.2.5]:2222 {OLD}\n192.0.2.55 {OLD}\n"
            f"# 192.0.2.5 {OLD}\nm\xfcll"
        ),
        text,
    ),
}


@pytest.mark.parametrize(("before", "after"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_node_that_is_forgotten(before: str, after: str) -> None:
    """Its names go, with the lines that are only its own; every other byte stays."""
    assert without(before, NAMES) == after
    assert without(after, NAMES) == after


@pytest.mark.parametrize(
    "before", ["", f"nas {OLD}", f"nas {OLD}\n", f"# z\r\n\nnas {OLD}\r\n", "\n"]
)
def test_pinned_and_forgotten(before: str) -> None:
    """The same bytes again."""
    assert without(repinned(before, NAMES, NEW, [NEW]), NAMES) == before


def test_with_a_port() -> None:
    """Name and address are looked for with it."""
    names = lookups("v100-01", "192.0.2.5", 2222)
    text = f"192.0.2.5 {OLD}\n[192.0.2.5]:2222 {OLD}\n"
    assert repinned(text, names, NEW, [NEW]) == f"192.0.2.5 {OLD}\n[192.0.2.5]:2222 {NEW}\n"


REVOKED = {
    "by address": (f"@revoked 192.0.2.5 {OLD}\n", [OLD]),
    "by name, with blanks and a comment": (f" @revoked\tnas,v100-01\t{OLD} lost\r\n", [OLD]),
    "hashed": (f"@revoked {HASHED} {OLD}", [OLD]),
    "any": (f"@revoked * {OLD}\n@revoked 192.0.2.? {RSA}\n", [OLD, RSA]),
    "without regard to case": (f"@revoked V100-* {OLD}\n", [OLD]),
    "but not this one": (f"@revoked !192.0.2.5,!v100-01,* {OLD}\n", []),
    "of others": (f"@revoked 192.0.2.55,192.0.2.1?,[192.0.2.5]:22 {OLD}\n", []),
    "no such line": (f"192.0.2.5 {OLD}\n# @revoked * {OLD}\n@cert-authority * {OLD}\n", []),
    "half a line": ("@revoked *\n@revoked * ssh-rsa\n@revoked", []),
}


@pytest.mark.parametrize(("text", "keys"), REVOKED.values(), ids=REVOKED)
def test_revoked_keys(text: str, keys: list[str]) -> None:
    """Those of a node, by whatever ssh reads as its name."""
    assert revoked_keys(text, NAMES) == keys


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Behind its link, with its mode and every byte of any encoding; nothing is left beside it."""
    real = tmp_path / "real"
    real.write_bytes(b"x")
    real.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to("real")
    write(link, "m\xfcll\r\n")
    assert real.read_bytes() == b"m\xfcll\r\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
