"""The key of --anonymous: made once, for this user alone, refused where others may know it."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu_node.history.folder import Refused, anonymous_key


def test_it_is_kept(store: Path) -> None:
    """Each report uses the same one, also where several begin at once; its mode is narrowed."""
    with ThreadPoolExecutor(8) as pool:
        keys = {each.result() for each in [pool.submit(anonymous_key) for _ in range(16)]}
    file = store.with_name("anonymous.key")
    assert len(keys) == 1 and {file.read_bytes()} == keys
    file.chmod(0o644)
    assert {anonymous_key()} == keys
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert {anonymous_key()} != keys


def test_it_is_refused(store: Path, tmp_path: Path) -> None:
    """A link that another user may have made, a damaged key, a folder."""
    file = store.with_name("anonymous.key")
    anonymous_key()
    file.write_bytes(b"short")
    with pytest.raises(Refused, match="has not 32 bytes; remove it"):
        anonymous_key()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is a symbolic link"):
        anonymous_key()
    file.unlink()
    file.mkdir()
    with pytest.raises(Refused, match="is neither a plain file nor a folder of this name"):
        anonymous_key()
