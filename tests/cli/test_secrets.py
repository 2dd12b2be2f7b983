"""No secret is in a command line, here or on a node, nor in the environment of a node's process.

What the controller starts itself, such as ssh, has the environment of its user, as in every shell.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from paramiko import Channel, ECDSAKey

from tests.cli.conftest import INVENTORY
from tests.commands import BIN, REPOSITORY, environment
from tests.hostile_nodes import reply
from tests.onboarding.serving import Sshd, serving

pytestmark = pytest.mark.slow

# The variables that a user exports on a controller, and others on a node.
OF_A_SHELL = ("HF_TOKEN", "WANDB_API_KEY", "SSHPASS", "AWS_SECRET_ACCESS_KEY", "SITE_COOKIE")
ADDRESSES = ("127.0.0.1", "127.0.0.2")
CLUSTER = """cluster: c
defaults:
  ssh: {{user: root, key: key, known_hosts: known_hosts}}
  shm: {{size: 8G}}
groups: {{g: {{}}}}
hosts:
  a100-01: {{address: 127.0.0.1, group: g, ssh: {{port: {ports[0]}}}}}
  v100-01: {{address: 127.0.0.2, group: g, ssh: {{port: {ports[1]}}}}}
"""
# Of one node the inventory has passwords for sudo and sshd, as pyinfra's inventories may.
WITH_PASSWORD = """
for hosts, _ in [value for value in list(globals().values()) if isinstance(value, tuple)]:
    for name, data in [each for each in hosts if isinstance(each, tuple)]:
        if name == "v100-01":
            data.update(_sudo=True, _sudo_password={password!r}, ssh_password={login!r})
"""
# In place of each program: its words are written down, whatever it does then.
NOTED = """#!/bin/sh
printf '%s\\n' "$0" "$@" >>'{log}/'$$
exec {real}/"${{0##*/}}" "$@"
"""
# Its options have no value.
SUDO = """#!/bin/sh
printf '%s\n' "$0" "$@" >>'{log}/'$$
while case $1 in -*) ;; *) false ;; esac; do shift; done
exec "$@"
"""


@dataclass
class World:
    """Two nodes, the secrets that are planted, and what is seen of processes."""

    folder: Path
    # What may be nowhere but with the controller, and what a node has itself.
    controller: dict[str, str]
    node: dict[str, str]
    sent: list[bytes] = field(default_factory=list)
    # Command lines, and environments with the user of their process.
    commands: set[bytes] = field(default_factory=set)
    environments: set[tuple[int, bytes]] = field(default_factory=set)

    @property
    def log(self) -> Path:
        """A file for each process of a program that was found in PATH, with its words."""
        return self.folder / "log"

    @property
    def path(self) -> str:
        return f"{self.folder / 'noted'}:{os.environ['PATH']}"

    def run(self, *words: str) -> str:
        """Run a command of the controller, whose user has exported secrets."""
        done = subprocess.run(
            [BIN / "gpu-node", *words],
            cwd=REPOSITORY,
            env={**environment(), **_exported(self.controller), "PATH": self.path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout + done.stderr

    def answer(self, channel: Channel, command: bytes) -> None:
        """Run a command as a node on which secrets are exported."""
        with channel.makefile("rb") as given:
            script = given.read()
        self.sent += [command, script]
        done = subprocess.run(
            ["sh", "-c", command.decode()],
            input=script,
            env={"PATH": self.path, "HOME": str(self.folder / "home"), **_exported(self.node)},
            capture_output=True,
        )
        reply(channel, done.stdout, done.returncode)


def _exported(values: Mapping[str, str]) -> dict[str, str]:
    proxy = f"http://user:{values['proxy']}@127.0.0.9:9"
    return {**{name: values[name] for name in OF_A_SHELL}, "https_proxy": proxy}


@contextmanager
def looking(world: World) -> Iterator[None]:
    """Read the command line and the environment of every process, again and again."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    world.commands.add((process / "cmdline").read_bytes())
                    uid = process.stat().st_uid
                    world.environments.add((uid, (process / "environ").read_bytes()))
            time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two nodes that are this machine; every program of it is noted, on both sides."""
    names = (*OF_A_SHELL, "proxy", "password", "login")
    mine, theirs = ({name: secrets.token_hex(12) for name in names} for _ in range(2))
    world = World(tmp_path, mine, theirs)
    for each in ("home", "noted", "log"):
        (tmp_path / each).mkdir()
    (tmp_path / "noted" / "sudo").write_text(SUDO.format(log=world.log))
    (tmp_path / "noted" / "sudo").chmod(0o755)
    for folder in ("/usr/sbin", "/usr/bin"):
        noted = tmp_path / "noted" / f".{Path(folder).name}"
        noted.write_text(NOTED.format(log=world.log, real=folder))
        noted.chmod(0o755)
        for program in Path(folder).iterdir():
            with suppress(FileExistsError):
                (tmp_path / "noted" / program.name).symlink_to(noted)
    lines = [f"export {name}={world.node[name]}\n" for name in OF_A_SHELL]
    for name in (".bashrc", ".profile", ".deepspeed_env"):
        (tmp_path / "home" / name).write_text("".join(lines))
    key = ECDSAKey.generate()
    with ExitStack() as stack:
        sshds: list[Sshd] = []
        for address in ADDRESSES:
            sshd = stack.enter_context(serving(tmp_path / "home", address))
            sshd.authorized, sshd.answer = [key], world.answer
            sshds.append(sshd)
        key.write_private_key_file(str(tmp_path / "key"))
        pairs = zip(ADDRESSES, sshds, strict=True)
        pins = [f"[{address}]:{sshd.port} {sshd.host_key}\n" for address, sshd in pairs]
        (tmp_path / "known_hosts").write_text("".join(pins))
        ports = [sshd.port for sshd in sshds]
        text = CLUSTER.format(ports=ports)
        (tmp_path / "site.yml").write_text(text)
        (tmp_path / "site.py").write_text(INVENTORY)
        password = WITH_PASSWORD.format(**world.controller)
        (tmp_path / "password.py").write_text(
            INVENTORY.replace("__file__", repr(str(tmp_path / "site.yml"))) + password
        )
        yield world


COMMANDS = {
    "drift": ("drift", "{password}"),
    "by ssh": ("drift", "{site}", "--via", "clustershell", "--limit", "a100-01"),
    "deploy": ("deploy", "{password}", "--dry"),
    # The lab of another lane may hold its GPUs, and this machine sees its processes.
    "verify": ("verify", "{site}", "--allow-disruption"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_secret_is_in_a_process(world: World, name: str) -> None:
    """What is planted in the environment of the controller, its inventory, and the nodes."""
    places = {each: str(world.folder / f"{each}.py") for each in ("site", "password")}
    with looking(world):
        printed = world.run(*(word.format(**places) for word in COMMANDS[name]))
    assert world.sent, printed
    noted = {file.read_bytes() for file in world.log.iterdir()}
    assert len(noted) > 15, printed
    mine = [value.encode() for value in world.controller.values()]
    theirs = [value.encode() for value in world.node.values()]
    for command in (*noted, *world.commands):
        assert not [each for each in (*mine, *theirs) if each in command], command[:500]
    for sent in world.sent:
        assert not [each for each in mine if each in sent]
    for uid, variables in world.environments:
        if any(each in variables for each in mine):
            assert uid == os.getuid() and str(world.folder / "home").encode() not in variables
    assert not [each for each in (*mine, *theirs) if each.decode() in printed]
