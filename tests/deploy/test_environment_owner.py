"""A copied environment is received where no one else gets, and its Python runs as its owner."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pyinfra.api import Host, State, StringCommand

from gpu_node.deploy.engine.scripts import script, text
from gpu_node.deploy.nccl import environment_copy
from gpu_node.deploy.nccl.environment_copy import copy, partial_of
from gpu_node.facts.probe.records import words_of
from gpu_node.facts.probe.training_user import AS_USER
from tests.deploy.accounts import AS_ROOT, OTHER, OWNER, Node, made
from tests.deploy.accounts import nodes as nodes
from tests.deploy.accounts import place as place
from tests.deploy.accounts import secret as secret
from tests.deploy.copies import PEER
from tests.node_scripts import Ended, run

pytestmark = AS_ROOT


def room(path: Path, trains: str = "") -> StringCommand:
    """Make room beside a place."""
    given = {"path": str(path), "partial": partial_of(str(path))}
    return script("environment_room", **given, machine="", trains=trains)


def environment(place: Path, owner: str = "root") -> Path:
    """Return a Python environment that prints its user."""
    source = made(place / "source", owner)
    made(source / "bin", owner, python3=f"#!/bin/sh\nid -un >>{place}/ran\n")
    (source / "bin" / "python3").chmod(0o4755)
    (place / "ran").touch()
    (place / "ran").chmod(0o666)
    return source


def received(place: Path, path: Path, nodes: State, shell: str, trains: str = "") -> Ended:
    """Copy the environment by all steps of the operation, up to the first that fails."""
    begun = run(room(path, trains), shell)
    if begun.code:
        return begun
    partial = partial_of(str(path))
    if trains:  # the login is that user's own
        words = [*environment_copy.command("3.2.7"), f"{place}/source/", f"{partial}/tree/"]
        subprocess.run(["su", "-s", "/bin/sh", trains, "-c", shlex.join(words)], check=True)
    else:
        cast(Any, nodes).elsewhere[str(path)] = str(place / "source")
        if not copy(nodes, cast(Host, Node()), "a100-01", str(path), "3.2.7", PEER.model_dump()):
            return Ended(1, "", "")
    backups = str(place / "backups" / "RUN")
    return run(script("environment_whole", path=str(path), partial=partial, backups=backups), shell)


def takes_back(place: Path) -> str:
    """Who takes a copy back, by what the run has noted."""
    (line,) = (place / "backups" / "RUN" / "also").read_text().splitlines()
    return words_of(line)[2]


def shown(path: Path) -> tuple[str, int]:
    """Owner and mode of an environment's Python."""
    python = path / "bin" / "python3"
    return python.owner(), stat.S_IMODE(python.stat().st_mode)


def test_root_receives_it_where_no_one_else_gets(
    place: Path, wire: Path, nodes: State, shell: str
) -> None:
    """In a folder of mode 0700; what arrives is root's, without setuid."""
    environment(place)
    envs, seen = made(place / "envs"), wire.parent / "seen"
    program = wire.parent / "bin" / "ssh"
    look = f"stat -c '%a %U' {envs}/.dis.gpu-node-partial >{seen}"
    program.write_text(program.read_text().replace("shift\nexec", f"shift\n{look}\nexec"))
    assert received(place, envs / "dis", nodes, shell) == Ended(0, "", "")
    assert seen.read_text() == "700 root\n"
    assert [path.name for path in envs.iterdir()] == ["dis"]
    assert shown(envs / "dis") == ("root", 0o755)
    assert (place / "ran").read_text() == "root\n" and takes_back(place) == "root"


def test_in_the_home_of_a_user(place: Path, wire: Path, nodes: State, shell: str) -> None:
    """Made, received, put there and tried as that user, although root logs in and trains."""
    environment(place, OWNER)
    home = made(place / "home", OWNER)
    assert received(place, home / "envs" / "dis", nodes, shell) == Ended(0, "", "")
    assert shown(home / "envs" / "dis") == (OWNER, 0o755)
    assert (home / "envs").owner() == OWNER and (place / "ran").read_text() == f"{OWNER}\n"
    assert takes_back(place) == OWNER


def test_of_another_who_trains(place: Path, nodes: State, shell: str) -> None:
    """Below a folder of root's: it is the training user's, and its Python runs as that user."""
    environment(place)
    envs = made(place / "envs")
    assert received(place, envs / "dis", nodes, shell, OTHER) == Ended(0, "", "")
    assert shown(envs / "dis") == (OTHER, 0o755) and envs.owner() == "root"
    assert [path.name for path in envs.iterdir()] == ["dis"]
    assert (place / "ran").read_text() == f"{OTHER}\n" and takes_back(place) == OTHER


def test_a_python_that_fails_is_removed(place: Path, nodes: State, shell: str) -> None:
    """As whose it is."""
    python = environment(place) / "bin" / "python3"
    python.write_text("#!/bin/sh\necho no libpython; exit 127\n")
    envs = made(place / "envs")
    done = received(place, envs / "dis", nodes, shell, OTHER)
    assert done.code == 1 and "(exit 127): no libpython" in done.err
    assert list(envs.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=["open", "sticky"])
def test_below_a_folder_in_which_others_write(place: Path, shell: str, mode: int) -> None:
    """Refused, with the folder; in a sticky one no user can replace what root makes."""
    envs = made(place / "envs")
    envs.chmod(mode)
    done = run(room(envs / "dis"), shell)
    assert (done.code != 0) == (mode == 0o777)
    assert ("users other than root may write in" in done.err) == (mode == 0o777)


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_lies_where_it_grows(place: Path, secret: Path, shell: str, kind: str) -> None:
    """A folder or link of another user's is neither used nor removed."""
    envs = made(place / "envs")
    partial = Path(partial_of(str(envs / "dis")))
    if kind == "link":
        partial.symlink_to(secret)
    else:
        made(partial, OWNER, mine="")
    done = run(room(envs / "dis"), shell)
    assert done.code == 1 and "is not root's: rm -rf" in done.err
    assert [path.name for path in secret.iterdir()] == ["shadow"]
    assert partial.is_symlink() or [path.name for path in partial.iterdir()] == ["mine"]


def test_what_is_planted_in_its_place(place: Path, secret: Path, shell: str) -> None:
    """A link that comes there right before it is renamed: nothing moves behind it."""
    envs = made(place / "envs")
    envs.chmod(0o1777)
    path = envs / "dis"
    assert run(room(path), shell).code == 0
    asked = script("environment_whole", path=str(path), partial=partial_of(str(path)))
    begins = 'as "$by" "$names"'
    text = asked.get_raw_value().replace(begins, f'ln -s {secret} "$path"; {begins}', 1)
    done = run(StringCommand(text), shell)
    assert done.code == 1 and "cannot be put there" in done.err
    assert [each.name for each in secret.iterdir()] == ["shadow"]


def test_what_a_user_moves_where_it_grows(place: Path, shell: str) -> None:
    """A tree of root's in a user's folder makes no Python of that folder run as root."""
    home = made(place / "home", OWNER)
    path = home / "envs" / "dis"
    assert run(room(path), shell).code == 0
    tree = Path(partial_of(str(path))) / "tree"
    tree.rmdir()
    environment(place).rename(tree)
    (tree / "bin" / "python3").write_text(f"#!/bin/sh\nid -un >>{place}/ran\n")
    asked = script("environment_whole", path=str(path), partial=str(tree.parent))
    run(asked, shell)
    assert (place / "ran").read_text() in ("", f"{OWNER}\n")


def test_another_user_does_not_get_the_lock(place: Path, shell: str) -> None:
    """A program of that user would hold it after us."""
    python = environment(place, OWNER) / "bin" / "python3"
    python.write_text(f'#!/bin/sh\n[ ! -e /proc/$$/fd/9 ] || echo lock >"{place}/ran"\n')
    home = made(place / "home", OWNER)
    partial = Path(partial_of(str(home / "dis")))
    (place / "source").rename(made(partial, OWNER) / "tree")
    asked = script("environment_whole", path=str(home / "dis"), partial=str(partial))
    assert run(asked, shell) == Ended(0, "", "")
    assert (place / "ran").read_text() == ""


@pytest.mark.parametrize("shell", ["dash", "bash-posix"])
def test_a_user_who_stops_what_runs(place: Path, shell: str) -> None:
    """The step ends all the same, and nothing waits for what that user has left there."""
    pid = place / "pid"
    pid.touch()
    pid.chmod(0o666)
    stops = shlex.quote(f"echo $$ >{pid}; kill -STOP $$")
    head = f"path=/x as_user={shlex.quote(AS_USER)}"
    words = f"{head}\n{text('copier')}\nas {OWNER} {stops} 1; echo $?"
    try:
        done = run(StringCommand(words), shell)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)
    assert done == Ended(0, "it did not end within 1 s; \n124\n", "")


def test_what_a_user_prints(shell: str) -> None:
    """The code is the program's, whatever it prints; of very much the end is shown."""
    head = "path=/x as_user=" + shlex.quote(AS_USER)
    for program, code in (
        ("echo ended 0; exit 7", 7),
        ("printf x; true", 0),
        ("yes | head -n 99999", 0),
    ):
        words = f"{head}\n{text('copier')}\nas daemon {shlex.quote(program)}"
        done = run(StringCommand(words), shell)
        assert done.code == code and len(done.out) <= 65536 + 1
