"""What goes wrong around a report is one line: a node that hangs up, a full disk, Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.commands import BIN, REPOSITORY, SECONDS, environment, run


def at_port(folder: Path, port: int) -> str:
    """The inventory, with its node at another port."""
    cluster = folder / "site.yml"
    cluster.write_text(cluster.read_text().replace("port: 1}", f"port: {port}}}"))
    return str(folder / "site.py")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A port that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("words", [["gpu-node", "drift"], ["pyinfra", "-y"]], ids=lambda w: w[0])
def test_a_node_that_hangs_up(folder: Path, listening: socket.socket, words: list[str]) -> None:
    """An sshd with too many logins, or a firewall, resets the connection: a line, no traceback."""

    def hang_up() -> None:
        while True:
            try:
                listening.accept()[0].close()
            except OSError:
                return

    Thread(target=hang_up, daemon=True).start()
    inventory = at_port(folder, listening.getsockname()[1])
    done = run(*words, inventory, *(["deploy/gpu_node.py"] if words[0] == "pyinfra" else []))
    listening.shutdown(socket.SHUT_RDWR)
    assert done.code == 1
    assert "SSH" in done.out + done.err
    assert "Traceback" not in done.err


def test_a_bad_cluster_file_is_named_once(folder: Path) -> None:
    """With its line; the inventory that reads it stands on the command line already."""
    cluster = folder / "site.yml"
    cluster.write_text(cluster.read_text().replace("port: 1}", "port: 0}"))
    done = run("gpu-node", "drift", str(folder / "site.py"))
    assert done.code == 1
    assert done.err.startswith(f"gpu-node: {cluster}:3: defaults.ssh.port: ")
    assert done.err.count(str(folder)) == 1


def test_an_interrupt(folder: Path, listening: socket.socket) -> None:
    """Ctrl-C while a node is asked ends with 1 and one line."""
    inventory = at_port(folder, listening.getsockname()[1])
    words = [str(BIN / "gpu-node"), "drift", inventory]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=REPOSITORY, env=environment(), stdout=pipe, stderr=pipe, text=True
    ) as running:
        connection = listening.accept()[0]
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=SECONDS)
        connection.close()
    assert (running.returncode, out, err.strip()) == (1, "", "gpu-node: interrupted")


def test_the_line_of_an_interrupt_on_a_terminal() -> None:
    """It does not stick to the ^C that the terminal shows."""
    ours, theirs = pty.openpty()
    code = "from gpu_node.inventories.interrupt import stop; stop()"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, stderr=theirs, check=False)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as seen:
        assert seen.read(1000).endswith(b"\r\ngpu-node: interrupted\r\n")
    assert done.returncode == 1


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_disk_behind_stdout(folder: Path, form: str) -> None:
    """A report that cannot be written is exit 1 with the reason."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [BIN / "gpu-node", "drift", str(folder / "site.py"), "--format", form],
            cwd=REPOSITORY,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "found no space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_through_a_link(folder: Path) -> None:
    """-o through a symlink writes where it leads; the link stays."""
    (folder / "latest").symlink_to("report.json")
    run("gpu-node", "drift", str(folder / "site.py"), "-o", str(folder / "latest"))
    assert (folder / "latest").is_symlink()


def test_output_into_a_pipe(folder: Path) -> None:
    """-o to what is no plain file (/dev/null, /dev/stdout, a FIFO) writes into it, as root, too."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        run("gpu-node", "drift", str(folder / "site.py"), "-o", str(pipe))
        assert pipe.is_fifo()
        assert b"unreachable" in os.read(reader, 65536)
    finally:
        os.close(reader)


def test_output_that_fails_leaves_nothing(folder: Path) -> None:
    """A report that cannot be renamed into place is taken away again."""
    target = folder / "taken"
    target.mkdir()
    before = set(os.listdir(folder))
    assert run("gpu-node", "drift", str(folder / "site.py"), "-o", str(target)).code == 1
    assert set(os.listdir(folder)) == before
