"""A start file written for real, under each kind of sh: checked by bash, given to who it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.env.operations import BASH_CHECK
from gpu_node.deploy.files.replace import replace
from gpu_node.facts.probe.file_bytes import FileContent
from tests.node_scripts import run

ABSENT = FileContent(exists=False, text="", problem="")
GOOD, BAD = "export A='1'\n", "if true; then\n"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param(GOOD, f"# x\n{GOOD}", 0, id="both can be parsed"),
        pytest.param(GOOD, BAD, 1, id="only the old one can"),
        pytest.param(BAD, f"{GOOD}{BAD}", 0, id="neither can, and it is not our fault"),
        pytest.param(BAD, GOOD, 0, id="only the new one can"),
    ],
)
def test_bash_can_parse_the_new_file(
    tmp_path: Path, backups: Path, shell: str, old: str, new: str, code: int
) -> None:
    """A file that bash cannot parse is refused, unless it was like that before."""
    file = tmp_path / ".bashrc"
    file.write_text(old)
    found = FileContent(exists=True, text=old, problem="")
    done = run(replace(str(file), found, new, check=BASH_CHECK), shell)
    assert (done.code, file.read_text()) == (code, old if code else new)
    assert ("the check refused it" in done.err) == bool(code)


def test_a_link_stays_a_link(tmp_path: Path, backups: Path, shell: str) -> None:
    """A user keeps start files elsewhere: the file is written there."""
    (tmp_path / "dotfiles").write_text(GOOD)
    file = tmp_path / ".bashrc"
    file.symlink_to("dotfiles")
    found = FileContent(exists=True, text=GOOD, problem="")
    assert run(replace(str(file), found, f"# x\n{GOOD}", check=BASH_CHECK), shell).code == 0
    assert file.is_symlink()
    assert (tmp_path / "dotfiles").read_text() == f"# x\n{GOOD}"


@pytest.mark.parametrize(("new", "code"), [(GOOD, 0), (BAD, 1)])
def test_a_new_file(tmp_path: Path, backups: Path, shell: str, new: str, code: int) -> None:
    """Readable; it belongs to who runs this. One that bash cannot parse is not made."""
    file = tmp_path / ".bashrc"
    done = run(replace(str(file), ABSENT, new, check=BASH_CHECK), shell)
    assert (done.code, file.exists()) == (code, not code)
    if not code:
        assert (file.read_text(), file.stat().st_mode & 0o7777) == (new, 0o644)


def test_a_file_that_appeared_meanwhile(tmp_path: Path, backups: Path, shell: str) -> None:
    """Neither a file, which another run may have made, nor a link to one is written over."""
    (tmp_path / "other").write_text(GOOD)
    (tmp_path / ".bashrc").symlink_to("other")
    for name in ("other", ".bashrc"):
        done = run(replace(str(tmp_path / name), ABSENT, f"# x\n{GOOD}"), shell)
        assert done.code == 1
        assert "appeared while we worked" in done.err
    assert (tmp_path / "other").read_text() == GOOD
