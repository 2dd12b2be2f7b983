"""docker reads its settings again: the signal goes to root's dockerd, and to no other process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.deploy.engine.scripts import text
from tests.shells import SHELLS, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
# Whether the file is a copy or a link to the program, as whom it runs, and whether it is dockerd.
CASES: dict[str, tuple[Callable[[str, Path], object], int, bool]] = {
    "root's": (shutil.copy, 0, True),
    "a user's": (shutil.copy, 1, False),
    "another program by that name": (os.symlink, 0, False),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("case", CASES)
def test_who_gets_the_signal(case: str, shell: str) -> None:
    """A pid of a file may be another process's by now, and any user's process can have the name."""
    made, uid, is_docker = CASES[case]
    folder = Path(mkdtemp(prefix="gpu-node-docker-"))
    folder.chmod(0o755)
    # A program of many names, such as busybox, would be another one by this name.
    made(os.path.realpath(str(shutil.which("sleep"))), folder / "dockerd")
    words = ["setpriv", f"--reuid={uid}", "--clear-groups", str(folder / "dockerd"), "60"]
    try:
        with subprocess.Popen(words) as process:
            while Path(f"/proc/{process.pid}/comm").read_text() != "dockerd\n":
                pass
            done = run(shell, f"pid={process.pid}\n{text('docker_reload')}", seconds=10)
            process.kill()
            ended = process.wait()
        assert (done.returncode == 0) is is_docker, done
        assert (b"is no dockerd of root" in done.stderr) is not is_docker
        assert ended == -(signal.SIGHUP if is_docker else signal.SIGKILL)
    finally:
        shutil.rmtree(folder)
