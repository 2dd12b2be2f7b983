"""One OpenSSH server for all nodes of a benchmark, on loopback alone, in private namespaces.

An sshd listens at 16 addresses at most, so there is one for each 16 nodes. Its user has the uid 0
in a private /etc/passwd: the machine's own accounts and sshd are left alone. It ends with the
process that started it, however that one ends.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.nodes.cluster import Login, Node, make_key, pin
from bench.nodes.package import find
from bench.nodes.root import as_root

HERE = Path(__file__).parent
# MAX_LISTEN_SOCKS of OpenSSH.
_ADDRESSES = 16
_START_SECONDS = 20
PASSWD = "root:*:0:0::{home}:/bin/sh\nsshd:*:74:74::/run/sshd:/bin/false\n"
SHADOW = "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n"
CONFIG = """\
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
AuthenticationMethods publickey
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 2000
MaxSessions 100
LogLevel ERROR
"""


class NoServer(Exception):
    """The test sshd cannot start; str() is the reason, and the next step."""


@contextmanager
def serving(folder: Path, hosts: Sequence[Node], answers: Path | None) -> Iterator[Login]:
    """Serve nodes, and yield how to log in to them; `folder` is emptied for its files.

    With `answers` each command gets the file ADDRESS.txt of it; without, commands run on this
    machine as they do on a node. Raises NoServer.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    login = _write(folder, hosts, answers)
    process = _started(folder)
    try:
        _wait(folder, hosts, login.port, process)
        yield login
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _write(folder: Path, hosts: Sequence[Node], answers: Path | None) -> Login:
    port = _free_port(hosts[0].address)
    login = Login(folder / "key", folder / "known_hosts", port)
    pin(login.known_hosts, hosts, port, make_key(folder / "host_key"))
    (folder / "authorized_keys").write_text(f"{make_key(login.key)}\n")
    (folder / "home").mkdir()
    (folder / "passwd").write_text(PASSWD.format(home=folder / "home"))
    (folder / "shadow").write_text(SHADOW)
    config = f"{CONFIG.format(port=port, folder=folder)}PidFile none\n"
    if answers is not None:
        command = f"ANSWERS={answers} exec sh {HERE / 'answer.sh'}"
        config += f"ForceCommand {command}\n"
    for first in range(0, len(hosts), _ADDRESSES):
        lines = [f"ListenAddress {host.address}\n" for host in hosts[first : first + _ADDRESSES]]
        (folder / f"sshd-{first:03}.conf").write_text("".join([*lines, config]))
    return login


def _started(folder: Path) -> subprocess.Popen[bytes]:
    sshd = find()
    path = f"LD_LIBRARY_PATH={sshd.libraries}"
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    enter = ["sh", str(HERE / "enter.sh"), str(folder), sshd.program]
    with (folder / "start.log").open("wb") as log:
        return subprocess.Popen(
            [*as_root(), "env", path, *spaces, *enter],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def _wait(folder: Path, hosts: Sequence[Node], port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the last address of each server accepts connections."""
    last = time.monotonic() + _START_SECONDS
    for each in [*hosts[_ADDRESSES - 1 :: _ADDRESSES], hosts[-1]]:
        while True:
            try:
                socket.create_connection((each.address, port), 1).close()
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > last:
                    raise NoServer(_why(folder, error)) from error
                time.sleep(0.05)


def _why(folder: Path, error: OSError) -> str:
    logs = [folder / "start.log", folder / "sshd.log"]
    lines = [line for log in logs if log.exists() for line in log.read_text().splitlines()]
    reason = "; ".join(lines[-3:]) or str(error)
    return f"the test sshd does not start: {reason}; it needs root, or sudo without a password"


def _free_port(address: str) -> int:
    with socket.socket() as made:
        made.bind((address, 0))
        return int(made.getsockname()[1])
