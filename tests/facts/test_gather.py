"""What this machine does while nodes answer, and what it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyinfra.api.exceptions import PyinfraError

from gpu_node.facts.ask.gather import limited_data

SCRIPT = """
import socket, sys
from gpu_node.cli.loading import loading
with loading():
    import gevent, gevent.event
    from gpu_node.facts.ask.gather import gather

order, worked = [], gevent.event.Event()
listener = socket.create_server(("127.0.0.1", 0))

def node():
    connection = listener.accept()[0]
    order.append("asked")
    worked.wait()
    order.append("answers")
    connection.close()

def work():
    while not order:
        yield
    order.append("work")
    worked.set()

gevent.spawn(node)
file = sys.argv[1]
with open(file, "w") as inventory:
    port = listener.getsockname()[1]
    inventory.write(f"hosts = [('a', {{'ssh_hostname': '127.0.0.1', 'ssh_port': {port}}})]")
waits = []
error = gather(file, meanwhile=work(), waiting=waits.append)["a"].error
print(*order, error, waits, sep="; ")
"""


def test_work_is_done_while_nodes_answer(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "site.py")]
    home = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(words, env=home, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("asked; work; answers; "), done
    assert "SSH" in done.stdout
    # Who has not answered yet: at the beginning, and after each answer.
    assert done.stdout.rstrip().endswith("[('a',), ()]")


def test_no_container_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of containers by name, those that run are asked; docker is only asked which these are."""
    program, called = tmp_path / "docker", tmp_path / "called"
    answer = (
        f'echo "$*" >>{called}; case $6 in runs) echo true ;; ended) echo false ;; *) exit 1; esac'
    )
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    file = tmp_path / "running.py"
    file.write_text("hosts = ['@docker/runs']\n")
    assert list(limited_data(str(file), ())) == ["@docker/runs"]
    file = tmp_path / "others.py"
    file.write_text("hosts = ['@docker/runs', '@docker/ended', '@docker/image:1']\n")
    with pytest.raises(PyinfraError) as refused:
        limited_data(str(file), ())
    names = [line.split(": ")[1] for line in str(refused.value).splitlines()]
    assert names == ["@docker/ended", "@docker/image:1"]
    assert {line.split()[1] for line in called.read_text().splitlines()} == {"inspect"}
