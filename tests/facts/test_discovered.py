"""Environments with torch that no inventory names: where they are found, and how many are asked."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import pytest

from gpu_node.facts.nccl import discovered, libnccl
from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.nccl.state import NcclState
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable, read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import shell
from tests import environments
from tests.environments import CU12
from tests.shells import SHELLS, as_lines

# The machine's programs without its Pythons, of which one may have torch.
_PROGRAMS = TemporaryDirectory(prefix="gpu-node-programs-")
SYSTEM = _PROGRAMS.name
for _each in Path("/usr/bin").iterdir():
    if not _each.name.startswith("python"):
        (Path(SYSTEM) / _each.name).symlink_to(_each)
Path(SYSTEM).chmod(0o755)


def _section(home: Path, user: str) -> Section:
    """Return the section for a training user who has this home; that is this user, if empty."""
    (section,) = [each for each in nccl.sections(ProbeRequest()) if each.name == discovered.NAME]
    who = user or "$(id -un)"
    here = f'home={quote(str(home))} user={who}; export home\nat_home() {{ sh -c "$1"; }}\n'
    return replace(section, command=section.command.replace(shell("env/training_user"), here))


def _ask(
    home: Path, path: str = SYSTEM, sh: str = "dash", user: str = ""
) -> tuple[NcclState, Readings]:
    section = _section(home, user)
    program, *options = SHELLS[sh]
    done = subprocess.run(
        [program, *options, "-c", render([section])],
        env={**environments.clean(), "PATH": path},
        capture_output=True,
        check=True,
    )
    others = {each.name: read([], [each]).sections[each.name] for each in libnccl.SECTIONS}
    readings = read(as_lines(done.stdout), [section])
    readings.sections.update(others)
    state = nccl.parse(readings)
    readings.unread[:] = [
        each for each in readings.unread if each.section.startswith(("nccl.discovered", "nccl.env"))
    ]
    return state, readings


def _listed(home: Path, *prefixes: Path | str) -> Path:
    """Write conda's list of a user's environments."""
    (home / ".conda").mkdir(parents=True)
    (home / ".conda" / "environments.txt").write_text("".join(f"{each}\n" for each in prefixes))
    return home


@pytest.fixture
def made(tmp_path: Path) -> environments.Environment:
    """torch with its own NCCL."""
    return environments.environment(tmp_path / "env", "torch", CU12)


def test_a_pipe_in_the_place_of_condas_list(tmp_path: Path) -> None:
    """Nothing waits for a writer."""
    list_of = _listed(tmp_path / "home") / ".conda" / "environments.txt"
    list_of.unlink()
    os.mkfifo(list_of)
    _, readings = _ask(tmp_path / "home")
    assert readings.unread == []


@pytest.mark.parametrize("sh", SHELLS)
def test_of_condas_list(made: environments.Environment, tmp_path: Path, sh: str) -> None:
    """Those with torch, each once; one that was deleted, or that has none, is left out."""
    (tmp_path / "link").symlink_to(made.prefix)
    bare = environments.environment(tmp_path / "bare")
    home = _listed(
        tmp_path / "home", tmp_path / "gone", bare.prefix, made.prefix, tmp_path / "link", "no path"
    )
    found, readings = _ask(home, sh=sh)
    assert found.discovered == {str(made.prefix): "conda"}
    assert readings.unread == []
    environment = found.environments[str(made.prefix)]
    assert environment is not None and environment.torch is not None
    assert (environment.torch.nccl, found.absent, found.undiscovered) == ("2.18.1", (), 0)


def test_of_the_launchers_path(made: environments.Environment, tmp_path: Path) -> None:
    """The python that a job gets which is started without a path."""
    found, _ = _ask(tmp_path, f"{made.prefix}/bin:{SYSTEM}")
    assert found.discovered == {str(made.prefix): "PATH"}


@contextmanager
def _mapping(*libraries: Path, user: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that has libraries of torch mapped, as `import torch` does."""
    script = "import mmap, sys, time; f = [open(each, 'rb') for each in sys.argv[1:]]; m = ["
    script += "mmap.mmap(each.fileno(), 0, access=mmap.ACCESS_READ) for each in f]; "
    script += "print(flush=True); time.sleep(60)"
    words = ["/usr/bin/python3", "-c", script, *map(str, libraries)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, user=user) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running
        running.kill()


@pytest.fixture
def trainer(made: environments.Environment) -> Iterator[subprocess.Popen[bytes]]:
    """A running trainer of the training user."""
    with _mapping(next(made.packages.glob("torch/lib/libtorch*.so"))) as running:
        yield running


def test_of_a_running_trainer(
    made: environments.Environment, trainer: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """By the files of torch that it has mapped: its program is the base Python, outside of it."""
    found, _ = _ask(tmp_path)
    assert found.discovered[str(made.prefix)] == f"pid {trainer.pid}"


def _made_up(prefix: Path, prints: bytes = b"") -> Path:
    """Make a folder that looks like an environment, and return its library of torch."""
    torch = prefix / "lib/python3.9/site-packages/torch"
    (prefix / "bin").mkdir(parents=True)
    (torch / "lib").mkdir(parents=True)
    (torch / "version.py").touch()
    (torch / "lib/libtorch.so").write_text("x")
    (prefix / "answer").write_bytes(prints)
    (prefix / "bin/python").write_text(f"#!/bin/sh\ncat {prefix}/answer\n")
    (prefix / "bin/python").chmod(0o755)
    return torch / "lib/libtorch.so"


def test_trainers_do_not_crowd_out_the_launchers(
    made: environments.Environment, tmp_path: Path
) -> None:
    """Each process of the user may name an environment; what a job gets is asked first."""
    with ExitStack() as stack:
        for number in range(discovered.MOST):
            stack.enter_context(_mapping(_made_up(tmp_path / f"env{number}")))
        found, _ = _ask(tmp_path, f"{made.prefix}/bin:{SYSTEM}")
    assert found.discovered[str(made.prefix)] == "PATH"
    assert found.environments[str(made.prefix)] is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_processes_of_others_name_no_environment(made: environments.Environment) -> None:
    """Another user of the node decides nothing about the jobs of the training user."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to others
        theirs = _made_up(Path(folder) / "theirs")
        with _mapping(theirs, user=65534):
            found, _ = _ask(Path(folder), f"{made.prefix}/bin:{SYSTEM}")
    assert found.discovered == {str(made.prefix): "PATH"}


@pytest.mark.skipif(os.geteuid() != 0, reason="other accounts are needed")
def test_conda_lists_environments_of_others() -> None:
    """What a third user owns is not known to be used, and may be private: that is no finding."""
    with TemporaryDirectory() as folder:
        for each in ("shared", "theirs"):
            _made_up(Path(folder) / each, b"{}\n")
        subprocess.run(["chown", "-R", "65534:65534", f"{folder}/theirs"], check=True)
        Path(folder).chmod(0o755)
        home = _listed(Path(folder) / "home", f"{folder}/theirs", f"{folder}/shared")
        found, readings = _ask(home, user="daemon")
        assert found.discovered == {f"{folder}/shared": "conda"}
        assert f"{folder}/theirs" not in str(readings.unread)


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x1e", "\x85", "\u2028", "\r"])
def test_what_an_environment_prints_forges_no_other(
    made: environments.Environment, tmp_path: Path, mark: str
) -> None:
    """Its line may have what other programs take for the end of a line, or bytes of no coding."""
    forged = f"{{}}{mark}environment\t/opt/forged\tPATH{mark}{{}}{mark}more\t7"
    _made_up(tmp_path / "odd", forged.encode() + b"\xff\n")
    home = _listed(tmp_path / "home", tmp_path / "odd")
    found, readings = _ask(home, f"{made.prefix}/bin:{SYSTEM}")
    assert found.discovered == {str(made.prefix): "PATH", str(tmp_path / "odd"): "conda"}
    assert found.environments[str(made.prefix)] is not None and found.undiscovered == 0
    assert [each.section for each in readings.unread] == [f"nccl.environment:{tmp_path / 'odd'}"]


def test_no_more_than_a_few_are_asked(made: environments.Environment, tmp_path: Path) -> None:
    """The number of the others is known."""
    prefixes = [tmp_path / f"env{number}" for number in range(discovered.MOST + 3)]
    for each in prefixes:
        (each / "bin").mkdir(parents=True)
        (each / "bin" / "python").symlink_to("/bin/true")
        (each / "lib/python3.9/site-packages/torch").mkdir(parents=True)
        (each / "lib/python3.9/site-packages/torch/version.py").touch()
    began = time.monotonic()
    found, readings = _ask(_listed(tmp_path / "home", *prefixes))
    assert (len(found.discovered), found.undiscovered) == (discovered.MOST, 3)
    # Each is unreadable by itself: its Python printed nothing.
    assert len(readings.unread) == discovered.MOST
    assert set(found.environments.values()) == {None}
    assert time.monotonic() - began < 30


def test_one_that_is_not_run_is_unreadable_alone(
    made: environments.Environment, tmp_path: Path
) -> None:
    """As everyone may change it; the other one is read."""
    other = environments.environment(tmp_path / "open", "torch", CU12)
    (tmp_path / "open" / "bin").chmod(0o777)
    found, readings = _ask(_listed(tmp_path / "home", other.prefix, made.prefix))
    assert found.environments[str(made.prefix)] is not None
    assert found.environments[str(other.prefix)] is None
    [unread] = readings.unread
    assert unread.section == f"nccl.environment:{other.prefix}"
    assert "everyone may write" in unread.reason


def test_an_inventory_that_names_environments_asks_about_these_alone() -> None:
    """What a job uses is known then."""
    names = [each.name for each in nccl.sections(ProbeRequest(["/opt/dis"]))]
    assert discovered.NAME not in names
    assert "nccl.environment:/opt/dis" in names


HOSTILE = {
    "no environment": "something\t/opt/x\tconda\n{}",
    "no absolute path": "environment\topt/x\tconda\n{}",
    "another way": "environment\t/opt/x\tby magic\n{}",
    "too many": "".join(f"environment\t/opt/{number}\tPATH\n{{}}\n" for number in range(9)),
    "no number": "more\tmany",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_of_another_form_is_unreadable(text: str) -> None:
    """Folders become parts of advice and of facts' names."""
    with pytest.raises(Unreadable):
        discovered.parse(text)


def test_what_an_environment_prints_is_one_line() -> None:
    """It names no other environment."""
    found = discovered.parse("environment\t/opt/x\tPATH\nenvironment\t/opt/y\tPATH\n")
    assert found.how == {"/opt/x": "PATH"}
