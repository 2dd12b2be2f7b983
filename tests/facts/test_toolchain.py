"""The section about cmake, run by each shell over a folder of a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from facts.toolchain import LINK_DIR, SECTIONS, parse_cmake
from tests.shells import SHELLS, ask


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_in_the_way_of_our_links(tmp_path: Path, shell: str) -> None:
    """A user's file, and a dangling link; a link to a release of ours is none."""
    links = tmp_path / "links"
    links.mkdir()
    (links / "cmake").write_text("mine")
    (links / "ctest").symlink_to("../site/ctest")
    (links / "cpack").symlink_to("/opt/cmake-3.23.1/bin/cpack")
    (tmp_path / "cmake-3.25.2").mkdir()
    (section,) = (each for each in SECTIONS if each.name == "toolchain.cmake")
    command = section.command.replace(LINK_DIR, str(links))
    command = command.replace("in /opt/cmake-*; do", f"in {tmp_path}/cmake-*; do")
    readings = ask(shell, [replace(section, command=command)])
    found = readings.take("toolchain.cmake", parse_cmake)
    assert found is not None, readings.unread
    assert found.taken == (f"{links}/cmake", f"{links}/ctest")
    assert found.releases == (f"{tmp_path}/cmake-3.25.2",)
