"""A Python environment grows beside its place and appears whole; rsync comes alone, or not."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State, StringCommand

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.nccl import environment_copy
from gpu_node.deploy.nccl.environment_copy import command, copy, has_room, partial_of
from gpu_node.deploy.workspace.rsync_run import Outcome
from tests import node_scripts
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import run

PEER = {"name": "v100-02", "address": "192.0.2.12", "port": 22}


def made(folder: Path, python: str = "#!/bin/sh\nexit 0\n") -> Path:
    """An environment with a link, a hard link and an old file."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").write_text(python)
    (folder / "bin" / "python3").chmod(0o755)
    (folder / "bin" / "python").symlink_to("python3")
    os.link(folder / "bin" / "python3", folder / "bin" / "python3.10")
    os.utime(folder / "bin", (1_700_000_000, 1_700_000_000))
    return folder


def test_where_it_grows() -> None:
    """Beside its place, on the same disk."""
    assert partial_of("/opt/envs/dis") == "/opt/envs/.dis.gpu-node-partial"
    assert partial_of("/dis/") == "/.dis.gpu-node-partial"


@pytest.mark.parametrize("there", [False, True], ids=["fresh", "resumed"])
def test_room_below_a_parent_that_is_missing(tmp_path: Path, shell: str, there: bool) -> None:
    """With its parents; what an earlier run has sent stays."""
    path = tmp_path / "miniconda3" / "envs" / "dis"
    partial = Path(partial_of(str(path)))
    if there:
        made(partial / "tree")
    asked = room(path, os.uname()[4])
    done = run(asked, shell)
    assert (done.code, done.err) == (0, "")
    assert partial.is_dir() and (partial / "tree" / "bin").exists() == there and not path.exists()


@pytest.mark.parametrize(
    ("place", "kind", "says"),
    [("dis", "aarch65", "the environment is for aarch65"), ("", "", "it was created meanwhile")],
)
def test_no_room(tmp_path: Path, shell: str, place: str, kind: str, says: str) -> None:
    """Of another machine, or there already: nothing is made."""
    path = tmp_path / place
    partial = partial_of(str(path))
    done = run(room(path, kind), shell)
    assert done.code == 1 and says in done.err
    assert not Path(partial).exists()


def room(path: Path, machine: str = "", trains: str = "") -> StringCommand:
    """Make room beside a place."""
    given = {"path": str(path), "partial": partial_of(str(path))}
    return script("environment_room", **given, machine=machine, trains=trains)


def put(path: Path, shell: str) -> Any:
    """Put what is in the folder beside it into its place."""
    partial = partial_of(str(path))
    return run(script("environment_whole", path=str(path), partial=partial), shell)


def test_it_appears_whole(tmp_path: Path, shell: str) -> None:
    """Renamed, and its Python runs."""
    made(tmp_path / "envs" / ".dis.gpu-node-partial" / "tree")
    done = put(tmp_path / "envs" / "dis", shell)
    assert (done.code, done.err) == (0, "")
    assert [each.name for each in (tmp_path / "envs").iterdir()] == ["dis"]


def test_it_is_on_the_disk_before_it_is_renamed(
    tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash leaves no environment of empty files."""
    partial = tmp_path / "envs" / ".dis.gpu-node-partial"
    made(partial / "tree")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sync").write_text(
        f'#!/bin/sh\n[ ! -e "$2"/bin ] || echo "$@" >>{tmp_path}/synced\n'
    )
    (programs / "sync").chmod(0o755)
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", f"{programs}:")
    assert put(tmp_path / "envs" / "dis", shell).code == 0
    if shell != "busybox":  # its sync is a part of it
        assert (tmp_path / "synced").read_text() == f"-f {partial}/tree\n"


@pytest.mark.parametrize(
    "python", ["#!/nowhere/python3.11\n", "#!/bin/sh\necho no libpython >&2; exit 127\n"]
)
def test_a_python_that_does_not_run(tmp_path: Path, shell: str, python: str) -> None:
    """As one of venv without the Python that made it: the error shows it, and it is removed."""
    made(tmp_path / "envs" / ".dis.gpu-node-partial" / "tree", python)
    done = put(tmp_path / "envs" / "dis", shell)
    assert done.code == 1
    assert "does not run on this node" in done.err and "the copy was removed" in done.err
    assert list((tmp_path / "envs").iterdir()) == []


def test_one_that_came_meanwhile_stays(tmp_path: Path, shell: str) -> None:
    """Another process made it during the copy."""
    made(tmp_path / "envs" / ".dis.gpu-node-partial" / "tree")
    made(tmp_path / "envs" / "dis", "theirs")
    done = put(tmp_path / "envs" / "dis", shell)
    assert done.code == 1 and "it was created meanwhile; the copy is in " in done.err
    assert (tmp_path / "envs" / "dis" / "bin" / "python3").read_text() == "theirs"


def test_it_is_copied_as_it_is(tmp_path: Path) -> None:
    """Links, hard links, modes and times; what the source has lost goes from an unfinished copy."""
    source, target = made(tmp_path / "source"), tmp_path / ".target.gpu-node-partial"
    (target / "lib").mkdir(parents=True)
    (target / "lib" / "old-1.0.dist-info").touch()
    subprocess.run([*command("3.2.7"), f"{source}/", f"{target}/"], check=True, capture_output=True)
    binaries = target / "bin"
    assert os.readlink(binaries / "python") == "python3"
    assert (binaries / "python3").stat().st_ino == (binaries / "python3.10").stat().st_ino
    assert (binaries / "python3").stat().st_mode & 0o777 == 0o755
    assert binaries.stat().st_mtime == 1_700_000_000
    assert not (target / "lib").exists()
    assert "--info=progress2" in command("3.1.2") and "--info=progress2" not in command("3.0.9")


class Node:
    """The node that gets the environment; its disk has 100 KiB, and 10 have been sent."""

    answer: tuple[bool, list[str], str] = (True, ["free 100", "sent 10"], "")

    name, print_prefix = "v100-02", "[v100-02] "
    data = SimpleNamespace(dict=lambda: {"ssh_user": "root"})

    def get_host(self, _: str) -> Host:
        """The source: where root trains as well."""
        return cast(Host, self)

    @property
    def connector(self) -> Any:
        """The connection to it."""
        return self

    def run_shell_command(self, command: Any, *_: object, **__: object) -> tuple[bool, Any]:
        """What df and du say."""
        assert "/opt/.dis.gpu-node-partial" in command.get_raw_value()
        done, lines, stderr = self.answer
        return done, SimpleNamespace(stdout_lines=lines, stderr=stderr)


def of_source(monkeypatch: pytest.MonkeyPatch, kib: int, *codes: int) -> list[list[str]]:
    """A source with an environment of that size, and an rsync that ends with these codes."""
    called: list[list[str]] = []
    ends = iter(codes)

    def transfer(state: object, host: object, source: str, argv: list[str], total: int) -> Any:
        called.append(argv)
        assert total == kib * 1024
        return Outcome(next(ends), ["rsync: no space"])

    monkeypatch.setattr(environment_copy, "answer", lambda *_: [f"{kib}\t/opt/dis"])
    monkeypatch.setattr(environment_copy, "transfer", transfer)
    monkeypatch.setattr(environment_copy, "of_operation", lambda *_: {})
    return called


@pytest.mark.parametrize(("kib", "fits"), [(110, True), (111, False)])
def test_a_disk_that_is_too_small(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, kib: int, fits: bool
) -> None:
    """Asked before anything is sent; what was sent already needs no room."""
    of_source(monkeypatch, kib)
    state, host = cast(State, None), cast(Host, Node())
    assert has_room(state, host, "v100-01", "/opt/dis") == fits
    assert ("the disk here has 100K free; nothing was copied" in caplog.text) != fits


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((False, [], "Permission denied"), "free space of the disk here: Permission denied; "),
        ((True, ["free ", "sent 900"], ""), "free space of the disk here: df gave no answer; "),
        (
            (True, ["sent 900"], "df: /opt: Stale file handle"),
            "the disk here: df: /opt: Stale file handle",
        ),
    ],
)
def test_room_that_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
    answer: tuple[bool, list[str], str],
    expected: str,
) -> None:
    """Never taken for enough."""
    of_source(monkeypatch, 5)
    node = Node()
    node.answer = answer
    assert not has_room(cast(State, None), cast(Host, node), "v100-01", "/opt/dis")
    assert expected in caplog.text and "nothing was copied" in caplog.text


def test_what_the_node_is_asked(tmp_path: Path, shell: str) -> None:
    """The free room, and what was sent, each by its word; nothing of the second where none was."""
    place = tmp_path / "real"
    place.mkdir()
    (place / "sent").write_bytes(b"x" * 65536)
    partial = tmp_path / "partial"
    text = environment_copy._FREE.format(partial=partial)
    assert [line.split()[0] for line in run(StringCommand(text), shell).out.splitlines()] == [
        "free"
    ]
    partial.symlink_to(place)
    found = dict(line.split() for line in run(StringCommand(text), shell).out.splitlines())
    assert int(found["free"]) > 0 and int(found["sent"]) >= 64


@pytest.mark.parametrize("lines", [[], ["du: odd"]])
def test_a_size_that_is_unknown(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, lines: list[str]
) -> None:
    """Nothing is sent; du measures the directory, not a link to it."""
    of_source(monkeypatch, 5)
    asked: list[list[str]] = []

    def answer(state: object, source: str, argv: list[str]) -> list[str]:
        asked.append(argv)
        return lines

    monkeypatch.setattr(environment_copy, "answer", answer)
    assert not has_room(cast(State, None), cast(Host, Node()), "v100-01", "/opt/dis")
    assert asked == [["du", "-sk", "/opt/dis/."]]
    assert "cannot determine its size on v100-01" in caplog.text


@pytest.mark.parametrize(
    ("codes", "done", "says"),
    [
        ((0,), True, ""),
        ((24, 0), True, ""),
        ((24, 24, 24), False, "it changes while it is copied"),
        ((11,), False, "rsync from v100-01 ended with 11: rsync: no space"),
    ],
)
def test_files_that_go_meanwhile(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, codes: tuple[int, ...], done: bool, says: str
) -> None:
    """A copy of what changes is none: it is made again, three times in all."""
    called = of_source(monkeypatch, 5, *codes)
    state, host = State(), cast(Host, Node())
    monkeypatch.setattr(state, "inventory", Node(), raising=False)
    assert copy(state, host, "v100-01", "/opt/dis", "3.1.2", PEER) == done
    assert len(called) == len(codes) and says in caplog.text
    assert called[0][-2:] == ["/opt/dis/", "root@192.0.2.12:/opt/.dis.gpu-node-partial/tree/"]
    assert "StrictHostKeyChecking=yes" in shlex.join(called[0])


@pytest.mark.parametrize("manager", ["apt-get", "yum"])
def test_rsync_comes_alone(machine: Machine, shell: str, manager: str) -> None:
    """Refused where anything would go for its sake."""
    hidden = "for d in /usr/bin /bin; do mount --bind /dev/null $d/rsync 2>/dev/null || :; done\n"
    names = {"program": "rsync", "packages": "rsync"}
    asked = script("program", manager=manager, allow_reload="yes", **names)
    harm = "Remv samba [4]" if manager == "apt-get" else "Removing:\n samba  x86_64  4  @base  1 M"
    machine.write("plan", harm, "Operation aborted.")
    refused = machine.run(asked, shell, hidden)
    if "busybox" not in shell:
        assert refused.code == 1 and "would remove samba" in refused.err
        assert machine.installs() == []
    machine.write("plan", "Operation aborted.")
    done = machine.run(asked, shell, hidden)
    assert (done.code, done.err) == (0, "")
    assert len(machine.installs()) == 1
