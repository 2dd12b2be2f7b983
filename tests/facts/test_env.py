"""The environment's sections in each shell: what is told of a home with files of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from facts import env, network
from facts.cluster import Peer
from facts.env import EnvState
from facts.named import Named
from facts.probe import Reading
from tests.shells import SHELLS, ask

UNASKED = Reading(0, "", "not asked")
BASHRC = (
    b"# >>> gpu-node\nexport OMP_NUM_THREADS='4'\n# <<< gpu-node\n"
    b"# \xd6\xd0 NCCL_DEBUG=INFO\ncase $- in\n  *i*) ;;\n  *) return;;\nesac\n"
    b"export NCCL_DEBUG=INFO # \xd6\xd0\r\nexport HF_HOME=/data\nexport SECRET=NCCL"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a user that only `getent` knows."""
    (tmp_path / "bin").mkdir()
    home = tmp_path / "home of train"
    home.mkdir()
    getent = tmp_path / "bin" / "getent"
    getent.write_text(f"#!/bin/sh\necho 'train:x:1:1::{home}:/bin/bash'\n")
    getent.chmod(0o755)
    return home


def told(home: Path, shell: str, *names: str) -> EnvState:
    """The state that some sections tell of that user."""
    sections = env.sections(Named(user="train", variables=("OMP_NUM_THREADS",)))
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    readings = ask(shell, [each for each in sections if each.name in names], {"PATH": path})
    for section in sections:
        readings.sections.setdefault(section.name, UNASKED)
    state = env.parse(readings)
    unread = {each.section for each in readings.unread}
    assert not unread & set(names)
    return state


@pytest.mark.parametrize("shell", SHELLS)
def test_a_home_with_files(home: Path, shell: str) -> None:
    """Our block, the early return, the lines that set something, and no other line at all."""
    (home / ".bashrc").write_bytes(BASHRC)
    (home / ".nccl.conf").write_bytes(b"NCCL_IB_TC=1\r\n")
    (home / ".deepspeed_env").write_bytes(b"\n#A=1")
    state = told(home, shell, "env.user", "env.bashrc", "env.settings", "env.conf")
    assert state.user is not None and state.user.home == str(home)
    assert state.bashrc is not None
    assert (state.bashrc.lines, state.bashrc.returns) == (11, 7)
    assert [(each.first, each.last) for each in state.bashrc.blocks] == [(1, 3)]
    mine = [each for each in state.settings or () if each.path == "~/.bashrc"]
    assert [(each.line, each.name, each.value, each.ours) for each in mine] == [
        (2, "OMP_NUM_THREADS", "4", True),
        (9, "NCCL_DEBUG", "INFO", False),
    ]
    own = [(each.path, each.text) for each in state.conf or () if each.path.startswith("~")]
    assert own == [
        ("~/.nccl.conf", "NCCL_IB_TC=1\r"),
        ("~/.deepspeed_env", ""),
        ("~/.deepspeed_env", "#A=1"),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_home_without_files(home: Path, shell: str) -> None:
    """Nothing is set there, and that is known."""
    state = told(home, shell, "env.user", "env.bashrc", "env.settings", "env.conf")
    assert state.bashrc is not None and not state.bashrc.exists
    assert not [each for each in state.settings or () if each.path.startswith("~")]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_routes_to_other_nodes(shell: str) -> None:
    """A node itself, one that has a route, one whose name nobody knows."""
    nodes = (
        Peer(name="itself", address="127.0.0.1"),
        Peer(name="nobody", address="no-such-name.invalid"),
    )
    readings = ask(shell, network.sections(Named(nodes=nodes)))
    state = network.parse(readings)
    assert readings.unread == []
    assert [(each.node, each.local, each.address) for each in state.routes or ()] == [
        ("itself", True, "127.0.0.1"),
        ("nobody", False, None),
    ]
    assert "lo" in {each.interface for each in state.addresses or ()}
    assert ("lo", "loopback") in {(each.name, each.kind) for each in state.links or ()}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_an_earlier_user_has_left(home: Path, shell: str) -> None:
    """Of who logs in, where another one trains: files with our block, and no others."""
    (home / ".bashrc").write_bytes(BASHRC)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "authorized_keys").write_text("ssh-rsa AAAA zhang@home\n")
    assert told(home, shell, "env.left").left == (str(home / ".bashrc"),)
