"""The host keys of a node: those of sshd's settings, or of its files where only root reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.fork_server import REPOSITORY
from tests.shells import SHELLS

SCRIPT = REPOSITORY / "facts" / "ssh" / "host_keys.sh"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"


def asked(shell: str, etc: Path) -> tuple[int, str]:
    """Run the script without sshd, with `etc` in the place of /etc/ssh."""
    programs = etc / "bin"
    programs.mkdir()
    for name in ("sed", "cat", "ls", "head"):
        (programs / name).symlink_to(shutil.which(name) or "")
    script = SCRIPT.read_text().replace("/etc/ssh", str(etc)).replace(":/usr/sbin:/sbin", "")
    program, *options = SHELLS[shell]
    done = subprocess.run(
        [shutil.which(program) or program, *options, "-c", script],
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_keys_of_the_settings(shell: str, tmp_path: Path) -> None:
    """HostKey lines decide, in any spelling; keys of /etc/ssh beside them are not offered."""
    own = tmp_path / "own"
    own.mkdir()
    for name in ("a", "b"):
        (own / f"{name}.pub").write_text(f"{KEY}{name}\n")
    (tmp_path / "ssh_host_rsa_key.pub").write_text(f"{KEY}unused\n")
    (tmp_path / "sshd_config.d").mkdir()
    (tmp_path / "sshd_config.d" / "own.conf").write_text(f'hostkey="{own}/b"\n')
    (tmp_path / "sshd_config").write_text(
        f"#HostKey /no\nHostKeyAlgorithms ssh-rsa\n HostKey {own}/a # c\n"
    )
    assert asked(shell, tmp_path) == (0, f"{KEY}b\n{KEY}a\n")


def test_keys_without_such_lines(shell: str, tmp_path: Path) -> None:
    (tmp_path / "ssh_host_rsa_key.pub").write_text(f"{KEY}\n")
    assert asked(shell, tmp_path) == (0, f"{KEY}\n")


def test_keys_that_only_root_reads(shell: str, tmp_path: Path) -> None:
    """That is no answer, not an answer without keys."""
    (tmp_path / "sshd_config").write_text("HostKey /no/such/key\n")
    code, out = asked(shell, tmp_path)
    assert code == 1 and "root alone" in out
