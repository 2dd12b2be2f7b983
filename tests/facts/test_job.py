"""What a node says of a job's paths and programs, in each shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.drift.job.job import Given
from gpu_node.drift.job.launch import of_words
from gpu_node.facts.job.state import parse_names, parse_paths, parse_programs, sections
from gpu_node.facts.probe.request import JobAsked, ProbeRequest
from tests import shells


def asked(shell: str, name: str, job: JobAsked) -> str:
    """Return what a section about a job answers on this machine."""
    wanted = [each for each in sections(ProbeRequest(job=job)) if each.name == name]
    return shells.ask(shell, wanted).sections[name].require()


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_a_folder_that_is_not_absolute(shell: str) -> None:
    """The search for what is above a path ends where no slash is left."""
    job = JobAsked(folder="nowhere", paths=("train.py", "a/b", "/nowhere/c"))
    found = parse_paths(asked(shell, "job.paths", job))
    assert [(each.path, each.kind) for each in found] == [
        *(("train.py", "missing"), ("a/b", "missing"), ("/nowhere/c", "missing"))
    ]


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_the_version_of_a_python_without_a_folder_of_its_version(
    shell: str, tmp_path: Path
) -> None:
    """Debian's: python3 is a link to python3.11, and its packages are in python3."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3/dist-packages/torch-2.1.2.dist-info").mkdir(parents=True)
    (tmp_path / "bin/python3.11").write_text("#!/bin/sh\n")
    (tmp_path / "bin/python3.11").chmod(0o755)
    (tmp_path / "bin/python3").symlink_to("python3.11")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    job = JobAsked(programs=(f"{tmp_path}/bin/python3",))
    _, (python,) = parse_programs(asked(shell, "job.programs", job))
    assert python.version == "3.11"
    assert python.packages == {"torch": "2.1.2"}


@pytest.mark.parametrize("shell", shells.SHELLS)
@pytest.mark.parametrize("folder", ["~/job", "job", "HOME/job"])
def test_a_folder_below_the_home(
    shell: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cd ~/job` leads there, and so does a folder that is not absolute."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").touch()
    (tmp_path / "job" / "hostfile").write_text("alice@localhost slots=2\n")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    there = folder.replace("HOME", str(tmp_path))
    job = JobAsked(folder=there, hostfile="~/job/hostfile", paths=("train.py", "~/job"))
    found = parse_paths(asked(shell, "job.paths", job))
    assert [each.kind for each in found] == ["file", "directory"]
    assert "localhost" in parse_names(asked(shell, "job.names", job))


@pytest.mark.parametrize("shell", shells.SHELLS)
@pytest.mark.parametrize(
    ("listed", "found"),
    [(["a/envs/dis", "a"], "a/envs/dis/bin/run"), (["a/envs/dis", "b/envs/dis"], ""), (["a"], "")],
)
def test_an_environment_of_conda(
    shell: str, listed: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is that of conda's list; of two with one name, conda alone knows which."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda/environments.txt").write_text(
        "".join(f"{tmp_path / each}\n" for each in listed)
    )
    for each in ("a", "a/envs/dis", "b/envs/dis"):
        (tmp_path / each / "bin").mkdir(parents=True)
        (tmp_path / each / "bin/run").write_text("#!/bin/sh\n")
        (tmp_path / each / "bin/run").chmod(0o755)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    job = JobAsked(programs=("conda:dis/bin/run",))
    (program,), _ = parse_programs(asked(shell, "job.programs", job))
    assert program.path == (f"{tmp_path}/{found}" if found else "")


@pytest.mark.parametrize("shell", shells.SHELLS)
@pytest.mark.parametrize("line", ['"{}" "$0" "$@"', '{} "$0" "$@"'])
def test_a_python_that_the_second_line_names(shell: str, line: str, tmp_path: Path) -> None:
    """pip writes a line for sh where the path is long, or has blanks: that in quotes."""
    python = f"{tmp_path}/my env/bin/python" if line[0] == '"' else "/long/bin/python"
    (tmp_path / "run").write_text(f"#!/bin/sh\n'''exec' {line.format(python)}\n' '''\n")
    (tmp_path / "run").chmod(0o755)
    open_to_all(tmp_path)
    job = JobAsked(programs=(f"{tmp_path}/run",))
    (program,), _ = parse_programs(asked(shell, "job.programs", job))
    assert program.python == python


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_a_program_below_the_home(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one in a folder ~/job is no name in PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "job").mkdir()
    (tmp_path / "job/python").write_text("#!/bin/sh\n")
    (tmp_path / "job/python").chmod(0o755)
    open_to_all(tmp_path)
    job = Given(of_words(["./python", "-m", "torch.distributed.run", "train.py"]), "~/job").asked()
    (program,), _ = parse_programs(asked(shell, "job.programs", job))
    assert program.path == f"{tmp_path}/job/./python"


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_a_program_that_is_closed(shell: str, tmp_path: Path) -> None:
    """It is found by its path, and cannot be started; one that is missing is not closed."""
    (tmp_path / "run").write_text(f"#!{tmp_path}/python\n")
    (tmp_path / "python").touch()
    open_to_all(tmp_path)
    names = tuple(f"{tmp_path}/{name}" for name in ("python", "run", "none"))
    (tmp_path / "run").chmod(0o755)
    programs, (python,) = parse_programs(asked(shell, "job.programs", JobAsked(programs=names)))
    assert [(each.path, each.closed) for each in programs] == [
        *(("", names[0]), (names[1], None), ("", None))
    ]
    assert (python.path, python.closed) == (names[0], names[0])


def open_to_all(folder: Path) -> None:
    """Let the training user read a folder of a test."""
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_the_folders_of_a_configuration(shell: str, tmp_path: Path) -> None:
    """Those for offload are paths of the job; a line of the file is at most one of them."""
    (tmp_path / "ds *.json").write_text(
        '{"offload_param": {"nvme_path": "/nowhere/a b*"},\n"nvme_path": "/nowhere/c\td"}'
    )
    open_to_all(tmp_path)
    job = JobAsked(folder=str(tmp_path), files=("ds *.json",), paths=("ds *.json",))
    found = parse_paths(asked(shell, "job.paths", job))
    assert [(each.path, each.kind) for each in found] == [
        *(("ds *.json", "file"), ("/nowhere/a b*", "missing"))
    ]


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_what_a_hostfile_lists(shell: str, tmp_path: Path) -> None:
    """A word that getent would read as an option is no name."""
    (tmp_path / "hostfile").write_text("--help slots=1\n-s files\nlocalhost slots=2\n")
    open_to_all(tmp_path)
    job = JobAsked(folder=str(tmp_path), hostfile="hostfile")
    assert [*parse_names(asked(shell, "job.names", job))] == ["localhost"]


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_a_program_whose_first_line_is_a_pattern(shell: str, tmp_path: Path) -> None:
    """It is one name, and no list of the files that a shell finds for it."""
    (tmp_path / "run").write_text("#!/usr/bin/e*\n")
    (tmp_path / "run").chmod(0o755)
    open_to_all(tmp_path)
    names = ("-v", "sh", f"{tmp_path}/run")
    programs, pythons = parse_programs(asked(shell, "job.programs", JobAsked(programs=names)))
    assert [(each.name, each.python) for each in programs if each.name != "sh"] == [
        *(("-v", ""), (names[-1], "/usr/bin/e*"))
    ]
    assert [(each.path, each.version) for each in pythons] == [("/usr/bin/e*", "missing")]
