"""The product once as a whole: `init`, `drift` and `deploy --dry` over an sshd of the test.

The node is this machine, which none of these commands changes.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paramiko import ECDSAKey

from tests.commands import BIN, environment
from tests.onboarding.serving import Sshd, serving

SECONDS = 300
BASHRC = Path("~/.bashrc").expanduser()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that lets in who has the key of the test's home."""
    key = ECDSAKey.generate()
    for name in ("home", "server"):
        (tmp_path / name).mkdir()
    key.write_private_key_file(str(tmp_path / "home" / "key"))
    with serving(tmp_path / "server") as server:
        server.authorized.append(key)
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a line in the home of its user, whom known_hosts of this machine does not concern."""

    def run(line: str, *codes: int) -> str:
        done = subprocess.run(
            [BIN / "gpu-node", *line.split()],
            cwd=tmp_path / "home",
            env={**environment(), "HOME": str(tmp_path / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in codes, done.stdout + done.stderr
        # What pyinfra says to authors of deploys is for these.
        assert "Traceback" not in done.stderr and "side effects" not in done.stderr
        return done.stdout

    return run


def test_from_nothing_to_what_a_deploy_would_do(
    sshd: Sshd, run: Callable[..., str], tmp_path: Path
) -> None:
    """The commands of the README one after the other, and what is wanted between them."""
    before = BASHRC.read_bytes() if BASHRC.exists() else None
    as_root = "" if os.geteuid() == 0 else " --sudo"
    way = f"--port {sshd.port} --user {getpass.getuser()}{as_root} --key key"
    accept = f"--accept-host-key a100-01={sshd.keys[0].fingerprint}"
    # A section may take more than its time where all lanes run: the report ends with 1 then.
    run(f"init cluster a100-01=127.0.0.1 {way} {accept}", 0, 1, 2)
    site = tmp_path / "home" / "cluster" / "site.yml"
    wanted = "\ndefaults:\n  env: {GPU_NODE_WHOLE: '1'}\n"
    site.write_text(site.read_text().replace("\ndefaults:\n", wanted))
    run("check cluster/site.yml", 0)
    report = run("drift cluster/site.py", 1, 2)
    assert "a100-01" in report and "env.not-set" in report
    shown = run("deploy cluster/site.py --dry", 0, 1)
    assert f"/.bashrc: {'changes' if before else 'is made'}\n" in shown
    assert "    +export GPU_NODE_WHOLE='1'\n" in shown
    assert not [*sshd.home.iterdir()]
    assert before == (BASHRC.read_bytes() if BASHRC.exists() else None)
