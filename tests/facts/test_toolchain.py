"""The section about cmake, run by each shell over a folder of a test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.toolchain.state import LINK_DIR, Toolchain, parse_cmake
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS, as_lines, ask


def test_what_is_in_the_way_of_our_links(tmp_path: Path, shell: str) -> None:
    """A user's file, and a dangling link; a link to a release of ours is none."""
    links = tmp_path / "links"
    links.mkdir()
    (links / "cmake").write_text("mine")
    (links / "ctest").symlink_to("../site/ctest")
    (links / "cpack").symlink_to("/opt/cmake-3.23.1/bin/cpack")
    (tmp_path / "cmake-3.25.2").mkdir()
    (section,) = (each for each in Toolchain.sections if each.name == "toolchain.cmake")
    command = section.command.replace(LINK_DIR, str(links))
    command = command.replace("in /opt/cmake-*; do", f"in {tmp_path}/cmake-*; do")
    readings = ask(shell, [replace(section, command=command)])
    found = readings.take("toolchain.cmake", parse_cmake)
    assert found is not None, readings.unread
    assert found.taken == (f"{links}/cmake", f"{links}/ctest")
    assert found.releases == (f"{tmp_path}/cmake-3.25.2",)


@pytest.mark.parametrize(("mode", "owner"), [("755", "root"), ("755", "daemon"), ("777", "root")])
def test_a_cmake_runs_as_its_owner(owned: Path, mode: str, owner: str, shell: str) -> None:
    """One that everyone may write does not run as root: the section is unreadable."""
    as_root(["sh", "-c", f"chmod {mode} {owned}/bin; chown -R {owner} {owned}"])
    (section,) = (each for each in Toolchain.sections if each.name == "toolchain.cmake")
    program, *options = SHELLS[shell]
    script = f"PATH={owned}/bin:$PATH\n{render([section])}"
    done = as_root([str(shutil.which(program)), *options, "-c", script])
    readings = read(as_lines(done.stdout.encode()), [section])
    found = readings.take("toolchain.cmake", parse_cmake)
    if mode == "777":
        assert f"everyone may write {owned}/bin" in readings.unread[0].reason
        return
    assert found is not None, readings.unread
    assert (found.found[0].real, found.found[0].output) == (f"{owned}/bin/cmake", f"as {owner}")


@pytest.fixture
def owned() -> Iterator[Path]:
    """A folder that every account may go through, with a cmake that prints whom it runs as."""
    folder = Path(mkdtemp(prefix="gpu-node-cmake-"))
    (folder / "bin").mkdir()
    (folder / "bin" / "cmake").write_text('#!/bin/sh\necho "as $(id -un)"\n')
    as_root(["chmod", "-R", "755", folder])
    yield folder
    as_root(["rm", "-rf", folder])
