"""Ctrl-C during a first contact: it ends at once with exit 1, whatever is waited for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from tests.onboarding.serving import PASSWORD, Sshd

REPOSITORY = Path(__file__).parents[2]
# As the command does it; what is waited for longest is a script on the node.
CONTACT = """
from gevent import monkey
monkey.patch_all()
import logging, sys
logging.getLogger("paramiko").addHandler(logging.NullHandler())
from pathlib import Path
from gpu_node.inventories.interrupt import at_once
from gpu_node.onboarding.trust.host_keys import Server, choose, offered
from gpu_node.onboarding.trust.login import open_session
from gpu_node.onboarding.trust.password import given
server = Server("n", "127.0.0.1", int(sys.argv[1]), "root", Path(sys.argv[2]))
with at_once():
    host_key = choose(server, offered(server), None, lambda text: True)
    with open_session(server, host_key, given(False)) as session:
        session.run("touch ~/begun; exec sleep 30", 60)
"""


@pytest.mark.parametrize("stage", ["handshake", "password", "script"])
def test_it_ends_at_once(sshd: Sshd, tmp_path: Path, stage: str) -> None:
    """One line, no traceback, and nothing of the password."""
    reached, over = threading.Event(), threading.Event()
    held: list[socket.socket] = []

    def silent(client: socket.socket) -> None:
        held.append(client)
        reached.set()

    def slow() -> None:
        reached.set()
        over.wait(30)

    sshd.instead = silent if stage == "handshake" else None
    sshd.on_password = slow if stage == "password" else None
    with subprocess.Popen(
        [sys.executable, "-c", CONTACT, str(sshd.port), str(tmp_path / "known_hosts")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), VARIABLE: PASSWORD},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if stage == "script":
            end = time.monotonic() + 30
            while not (sshd.home / "begun").exists() and time.monotonic() < end:
                time.sleep(0.02)
        else:
            assert reached.wait(30)
        time.sleep(0.2)
        before = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        took = time.monotonic() - before
    over.set()
    for each in held:
        each.close()
    assert (process.returncode, out) == (1, "gpu-node: interrupted\n")
    assert took < 15
