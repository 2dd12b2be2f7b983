"""nouveau.sh over a stand-in for dracut: what fails leaves nothing in /boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests import node_scripts
from tests.node_scripts import run_apart

KERNEL = "5.14.0-1.el9.x86_64"
# Like some, it writes under another name first; $1 is --force, $2 the image.
_DRACUT = """
if [ -e "$HERE/full" ]; then : >"$2.new"; echo 'dracut: No space left on device' >&2; exit 1; fi
echo image >"$2"
"""
# Of runs that were killed, and of other programs.
BEFORE = f"""mount -t tmpfs none /etc; mount -t tmpfs none /boot
mount -t tmpfs none /sys/module
echo old >/boot/initramfs-{KERNEL}.img
: >/boot/.initramfs-4.18.0.img.gpu-node; : >/boot/.initramfs-4.18.0.img.gpu-node.new
: >/boot/.initramfs-4.18.0.img.new"""


@pytest.mark.parametrize("is_full", [True, False])
def test_a_full_boot(
    tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """The old image stays, and what was left by this run and others of ours is gone."""
    for name, text in {"dracut": _DRACUT, "lsinitrd": "", "modprobe": ""}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nHERE={tmp_path}\n{text}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", f"{tmp_path}:")
    if is_full:
        (tmp_path / "full").touch()
    left = f".initramfs-4.18.0.img.new initramfs-{KERNEL}.img "
    image = "old" if is_full else "image"
    done = run_apart(
        script("nouveau", kernels=KERNEL, later="no", allow="yes"),
        shell,
        BEFORE,
        [
            f'[ "$(ls -A /boot | LC_ALL=C sort | tr "\\n" " ")" = "{left}" ]',
            f'[ "$(cat /boot/initramfs-{KERNEL}.img)" = {image} ]',
        ],
    )
    assert done.code == int(is_full), done.err
    assert ("No space left on device; the old one is there" in done.err) == is_full
