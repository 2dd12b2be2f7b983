"""The limits.d file: in limits.conf's units, for each name, and read back as it was meant."""

from __future__ import annotations

import pytest

from deploy.steps.limits import content
from drift.pam_limits import OWN_FILE, OwnLines
from facts.limits import parse_files

NAMES = ["*", "root", "train"]
LINES: OwnLines = {
    ("soft", "nofile"): 131072,
    ("hard", "nofile"): 131072,
    ("soft", "memlock"): "unlimited",
    ("hard", "memlock"): 8388608,
    ("soft", "stack"): 8388608,
}


def rows(text: str) -> list[list[str]]:
    """Return the fields of the lines that are no comment."""
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


def test_the_whole_file() -> None:
    """What an administrator finds there."""
    assert content({("soft", "nofile"): 131072, ("hard", "memlock"): "unlimited"}, NAMES[:2]) == (
        "# Written by gpu-node; what is set here comes from the inventory (limits).\n"
        "# root is named because the wildcard does not apply to root, see limits.conf(5).\n"
        "*        hard memlock  unlimited\n"
        "*        soft nofile   131072\n"
        "root     hard memlock  unlimited\n"
        "root     soft nofile   131072\n"
    )


def test_sizes_are_in_kilobytes() -> None:
    """memlock and stack count KiB, nofile counts files."""
    assert rows(content(LINES, ["root"])) == [
        ["root", "hard", "memlock", "8192"],
        ["root", "soft", "memlock", "unlimited"],
        ["root", "hard", "nofile", "131072"],
        ["root", "soft", "nofile", "131072"],
        ["root", "soft", "stack", "8192"],
    ]


def test_it_is_read_back_as_it_was_meant() -> None:
    """The facts find in the file what the rules wanted in it, for every name."""
    text = content(LINES, NAMES)
    numbered = [f"{OWN_FILE}:{n}:{line}" for n, line in enumerate(text.splitlines(), 1)]
    found = parse_files("\n".join(numbered))
    for name in NAMES:
        assert {(each.kind, each.item): each.value for each in found if each.domain == name} == (
            LINES
        )


def test_the_order_of_lines_does_not_matter() -> None:
    """The same limits give the same file, so that a second run finds it as wanted."""
    assert content(dict(reversed(LINES.items())), NAMES) == content(LINES, NAMES)


@pytest.mark.parametrize("names", [["*"], NAMES, ["*", "root", "user.with-odd_name"]])
def test_nothing_but_four_fields(names: list[str]) -> None:
    """Longer names make longer lines, never joined fields."""
    assert all(len(row) == 4 for row in rows(content(LINES, names)))
    assert content(LINES, names).endswith("\n")
