"""A report as root beside a hostile training user: whose rights each program has that it runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.node import sections
from gpu_node.facts.probe.owner import OWNER
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Section, read, render
from gpu_node.facts.probe.request import Copied, ProbeRequest
from gpu_node.facts.probe.training_user import as_training_user
from gpu_node.facts.toolchain import build
from gpu_node.lab.machine import as_root
from tests.second_account import NAME, OTHER_UID, UID, make_accounts, with_accounts
from tests.shells import SHELLS, as_lines

NVCC = "echo 'Cuda compilation tools, release 12.1, V12.1.105'"
# Variables of root that are no business of a user's.
ROOTS = {"HF_TOKEN": "hf_of_root", "https_proxy": "http://root:word@proxy", "PYTHONPATH": "/roots"}


@dataclass(frozen=True)
class Place:
    """The user's home, another user's programs, root's, and who has run any of them."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def program(self, path: str, text: str = "") -> Path:
        """Write a program that notes its path and who runs it."""
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        noted = shlex.quote(str(self.folder / "ran"))
        made.write_text(f'#!/bin/sh\necho "$(/usr/bin/id -u) $0 $(env | tr "\\n" " ")" >>{noted}\n{text}\n')
        made.chmod(0o755)
        return made

    def own(self) -> None:
        """Give each folder to its account."""
        for name, uid in (("home", UID), ("other", OTHER_UID), ("roots", 0)):
            as_root(["chown", "-R", f"{uid}:{uid}", self.folder / name])

    def ran(self) -> list[tuple[int, str, str]]:
        """Uid, path and variables of each program that was run."""
        lines = (self.folder / "ran").read_text().splitlines()
        rows = [line.split(" ", 2) for line in lines]
        return [(int(uid), path, rest) for uid, path, rest in rows]

    def run(self, shell: str, script: str, *before: str) -> subprocess.CompletedProcess[str]:
        """Run a script in a shell of root's, which has variables of root's."""
        (self.folder / "script").write_text(script)
        name, *options = SHELLS[shell]
        given = ["env", *(f"{name}={value}" for name, value in ROOTS.items())]
        words = [str(shutil.which(name)), *options, self.folder / "script"]
        return as_root([*before, *with_accounts(self.folder, *given, *words)], check=False)


@pytest.fixture
def place() -> Iterator[Place]:
    """Folders of a user, of another one and of root, below one that every account may enter."""
    made = Place(Path(mkdtemp(prefix="gpu-node-user-", dir="/var/tmp")))
    made.folder.chmod(0o755)
    for name in ("home", "other", "roots"):
        (made.folder / name).mkdir()
    (made.folder / "ran").touch()
    (made.folder / "ran").chmod(0o666)
    make_accounts(made.folder, made.home)
    yield made
    as_root(["rm", "-rf", made.folder])


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("owner", ["roots", "other"])
def test_the_compiler_that_a_user_names(place: Place, shell: str, owner: str) -> None:
    """It runs as that user, or not at all: neither root nor its owner runs what a user has chosen."""
    place.program("home/cuda/bin/nvcc", NVCC)
    named = place.program(f"{owner}/sbin/anything")
    (place.home / ".bashrc").write_text(
        f"printf 'caf\\351'\nexport CUDA_HOME={place.home}/cuda CXX={named} CC={named}\n"
    )
    place.own()
    section = build.section(ProbeRequest(user=NAME, trains_apart=True))
    done = place.run(shell, render([section]))
    readings = read(as_lines(done.stdout.encode()), [section])
    found = readings.take(build.NAME, build.parse)
    assert found is not None and found.cxx is not None, readings.unread
    assert {uid for uid, _, _ in place.ran()} == {UID}
    assert (found.nvcc and found.nvcc.version, found.cxx.path) == ("12.1", str(named))
    if owner == "other":
        assert "runs only what is root's or its own" in found.cxx.output


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("sets_user", ["setpriv", "su"])
def test_variables_of_root(place: Place, shell: str, sets_user: str) -> None:
    """A process of another account has none of them; its own are as after a login."""
    program = place.program("home/program")
    place.own()
    without = "" if sets_user == "setpriv" else "setpriv() { return 1; }\n"
    asked = as_training_user(NAME, f'home=/x; {program}; echo "$HOME"; cat')
    script = f"{OWNER}{without}as_account {NAME} {program}\n{asked} <<E\nfrom stdin\nE\n"
    done = place.run(shell, script)
    assert (done.returncode, done.stdout) == (0, f"{place.home}\nfrom stdin\n"), done.stderr
    assert [uid for uid, _, _ in place.ran()] == [UID, UID]
    for _, _, variables in place.ran():
        assert f"HOME={place.home} " in variables and f"USER={NAME} " in variables
        assert not [name for name in ROOTS if name in variables]
