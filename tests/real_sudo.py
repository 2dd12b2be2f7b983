"""Nodes with a real sudo, whose account, password and sudoers only their own processes have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from paramiko import Channel, ECDSAKey

from tests.hostile_nodes import reply
from tests.onboarding.serving import Sshd, serving

USER, UID = "gn-alice", 23458
PASSWORD = "grün 'n \"b$1"
_HASH = (
    "$6$gpunode$nk1LiHopcS4OFYcL/a7/nfcWUFRwJwwmS5lJETB0U3YTcseRT2WmZo2bea9vu7QFIywhmX5QdbOAorEjiSn"
    "yf."
)
ASKS, FREE = f"{USER} ALL=(ALL) ALL", f"{USER} ALL=(ALL) NOPASSWD: ALL"
TTY = f"{ASKS}\nDefaults requiretty"
# What a log of sudo has for a wrong password.
ATTEMPT = "incorrect password attempt"
_PAM = """auth required pam_unix.so nodelay
account required pam_unix.so
session required pam_permit.so
"""
_MOUNT = """
cd "$1" && for each in passwd group shadow sudoers pam.d/sudo; do
  mount --bind "$each" "/etc/$each" || exit 1
done
cd / && shift && exec setpriv --reuid "$1" --regid "$1" --clear-groups \
  env -i PATH="$PATH" HOME=/ sh -c "$2"
"""


@dataclass
class Node:
    """A node; `sent` are the command lines and the stdin that it got."""

    folder: Path
    sshd: Sshd
    sent: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def log(self) -> str:
        """What its sudo has logged."""
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""

    def answer(self, channel: Channel, command: bytes) -> None:
        """Run a command as the account."""
        with channel.makefile("rb") as given:
            stdin = given.read()
        self.sent.append((command, stdin))
        words = ["unshare", "--mount", "setsid", "sh", "-c", _MOUNT, "sh"]
        words += [str(self.folder), str(UID), command.decode()]
        done = subprocess.run(words, input=stdin, capture_output=True)
        channel.sendall_stderr(done.stderr)
        reply(channel, done.stdout, done.returncode)


def _made(folder: Path, sudoers: str, days: str) -> None:
    (folder / "pam.d").mkdir(parents=True)
    files = {
        "passwd": f"{Path('/etc/passwd').read_text()}{USER}:x:{UID}:{UID}::/:/bin/sh\n",
        "group": f"{Path('/etc/group').read_text()}{USER}:x:{UID}:\n",
        "shadow": f"root:*:20000::::::\n{USER}:{_HASH}:{days}\n",
        "sudoers": f"Defaults lecture=never, !syslog, logfile={folder}/log\n{sudoers}\n",
        "pam.d/sudo": _PAM,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "sudoers").chmod(0o440)
    (folder / "shadow").chmod(0o600)


@contextmanager
def nodes(folder: Path, sudoers: Sequence[str], days: str = "20000::::::") -> Iterator[list[Node]]:
    """Serve a node for each text of sudoers; nodes.py in the folder is their inventory.

    `days` are the fields of /etc/shadow behind the password.
    """
    key = ECDSAKey.generate()
    key.write_private_key_file(str(folder / "key"))
    made: list[Node] = []
    hosts = []
    with ExitStack() as stack:
        for number, text in enumerate(sudoers, 1):
            place = folder / f"n{number}"
            _made(place, text, days)
            sshd = stack.enter_context(serving(place))
            sshd.authorized = [key]
            node = Node(place, sshd)
            sshd.answer = node.answer
            made.append(node)
            data = {
                "ssh_hostname": "127.0.0.1",
                "ssh_port": sshd.port,
                "ssh_user": USER,
                "ssh_key": str(folder / "key"),
                "ssh_known_hosts_file": str(folder / "known_hosts"),
                "_sudo": True,
            }
            hosts.append((f"n{number}", data))
        pins = [f"[127.0.0.1]:{each.sshd.port} {each.sshd.host_key}\n" for each in made]
        (folder / "known_hosts").write_text("".join(pins))
        (folder / "nodes.py").write_text(f"hosts = {hosts!r}\n")
        yield made
