"""The list of what the product shows has its texts, and none with a word that is avoided."""

from __future__ import annotations

import pytest

from tests.strings import ROOMS, shown
from tests.test_words import WORDS


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ("drift", "nouveau holds the GPUs, so the nvidia module finds none"),
        ("drift", "run modprobe nvidia"),
        ("inventories", ", did you mean {close}?"),
        ("deploy", "Disable nouveau"),
        ("cli", "Show the facts of all nodes as well."),
    ],
)
def test_a_text_is_listed(room: str, text: str) -> None:
    """A finding, a manual repair, an error, the name of an operation and a help are listed."""
    assert text in {each.text for each in shown(room)}


def test_the_help_of_a_command_is_listed() -> None:
    """A command's docstring is its help; that of another function is not shown."""
    texts = [each.text for each in shown("cli")]
    assert any(each.startswith("Read every node of INVENTORY and report") for each in texts)
    assert not any(each.startswith("Return ") for each in texts)


def test_no_text_has_a_word_that_is_avoided() -> None:
    """Names of variables in placeholders count, too."""
    assert [each for room in ROOMS for each in shown(room) if WORDS.search(each.text)] == []
