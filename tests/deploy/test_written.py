"""The table of the files that gpu-node writes, beside what else names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_node.deploy.restore.records import Place, place_of, places
from gpu_node.facts.areas import AREAS
from gpu_node.facts.limits import confirmed

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "changes.md"


def _rows_of_docs() -> dict[str, str]:
    """What the page says of each area: its row of the table of places."""
    rows = re.findall(r"^\| ([a-z, ]+) \| (.*) \|$", DOCS.read_text(), re.MULTILINE)
    return {area: text for areas, text in rows for area in areas.split(", ") if area in AREAS}


def test_what_can_lock_out_is_confirmed() -> None:
    """An interrupted change of each is settled by the next run: it is a file of the table."""
    assert {each.path for each in places()} > {*confirmed.FILES, "~/.ssh/authorized_keys"}
    assert confirmed.is_keys("/home/alice/.ssh/authorized_keys")


@pytest.mark.parametrize("place", places(), ids=lambda each: each.path)
def test_a_row(place: Place) -> None:
    """It is reached, an area's, and on the page."""
    assert place.area in AREAS
    example = re.sub(r"^\*", "/x", place.pattern).replace("*", "x")
    assert place_of(example, "root") == place
    assert f"`{place.path}`" in _rows_of_docs()[place.area]
    assert place.live or not place.then


def test_the_page_names_no_other_file() -> None:
    """Each file below /etc, and in a home, is in the table, under the same area."""
    for area, text in _rows_of_docs().items():
        named = {each for each in re.findall(r"`((?:/etc|~)/[^`]*\.?[^`/]+)`", text)}
        assert named <= {each.path for each in places() if each.area == area} | FOLDERS


# Folders that the page names.
FOLDERS = {"/etc/systemd/system"}
