"""The size in fstab's /dev/shm line: it is raised; every other byte is the user's and stays."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.deploy.shm.operations import with_size
from gpu_node.inventories.fields.sizes import format_size

# What stands in a field: no blank, no line end, and no first character that makes a comment.
FIELD = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="#\x85\xa0"),
    min_size=1,
    max_size=8,
)
GAP = st.text(" \t", min_size=1, max_size=3)
INDENT = st.text(" \t", max_size=2)
END = st.sampled_from(["\n", "\r\n", "  \n", "\t0\t0\n", " 0 0\r\n", " 0 0 # \xe9\xff\n"])
POINTS = st.sampled_from(["/dev/shm", "/dev/shm/"])
OTHER_POINTS = st.sampled_from(["/", "/dev/shm2", "/dev/shm/x", "/mnt/dev/shm", "/dev", "none"])
OPTION = st.sampled_from(["defaults", "rw", "noexec", "mode=1777", "nr_inodes=9", "mysize=3"])
SIZE = st.sampled_from(["size=", "size=64m", "size=50%", "size=8G", "size=1,size=2"])
MEMORY, HALF = 12 << 30, 6 << 30
GIVES = {"": HALF, "size=": HALF, "size=50%": HALF, "size=64m": 64 << 20, "size=8G": 8 << 30}
GIVES["size=2"] = 2


@dataclass(frozen=True)
class Row:
    """A line of fstab; `before` and `after` surround the options that may change, if any may."""

    before: str
    options: tuple[str, ...] = ()
    after: str = ""

    def text(self, size: int | None = None) -> str:
        """The line as found, or as it should be with `size` at least."""
        options = list(self.options)
        now = [each for each in ",".join(options).split(",") if each.startswith("size=")]
        if size and options and GIVES[now[-1] if now else ""] < size:
            wanted = f"size={format_size(size)}"
            options = [re.sub("^size=.*", wanted, each) for each in ",".join(options).split(",")]
            options += [] if wanted in options else [wanted]
        return self.before + ",".join(options) + self.after


@st.composite
def shm_rows(draw: st.DrawFn) -> Row:
    """A line that mounts a tmpfs at /dev/shm, with or without a size."""
    fields = [draw(INDENT), draw(FIELD), draw(GAP), draw(POINTS), draw(GAP), "tmpfs", draw(GAP)]
    options = draw(st.lists(OPTION | SIZE, min_size=1, max_size=4))
    return Row("".join(fields), tuple(options), draw(END))


@st.composite
def other_rows(draw: st.DrawFn) -> Row:
    """A line about something else: a comment, a blank line, another mount, too few fields."""
    mount = [draw(FIELD), draw(OTHER_POINTS), draw(FIELD), draw(OPTION | SIZE)]
    comment = ["#", *mount[:1], "/dev/shm", *mount[2:]]
    fields = draw(st.sampled_from([mount, comment, [], ["#tmpfs", "/dev/shm", "tmpfs", "size=1"]]))
    return Row(draw(INDENT) + draw(GAP).join(fields) + draw(END))


ROWS = st.lists(shm_rows() | other_rows(), max_size=6)
SIZES = st.sampled_from([9 << 30, 8 << 30, 1536 << 20, 3])


@given(rows=st.lists(other_rows(), max_size=3), shm=shm_rows(), more=ROWS, size=SIZES)
def test_only_the_size_changes(rows: list[Row], shm: Row, more: list[Row], size: int) -> None:
    """Each /dev/shm line that gives less has the size, and each byte around it stays."""
    every = [*rows, shm, *more]
    found = with_size("".join(row.text() for row in every), size, MEMORY)
    assert found == "".join(row.text(size) for row in every)


@given(rows=st.lists(other_rows(), max_size=4), cut=st.integers(0, 3), size=SIZES)
def test_a_missing_line_is_appended(rows: list[Row], cut: int, size: int) -> None:
    """Without a /dev/shm line one is added; what was there, a missing line end too, comes first."""
    text = "".join(row.text() for row in rows)
    text = text[: len(text) - cut] if cut < len(text) else text
    gap = "" if text.endswith("\n") or not text else "\n"
    assert (
        with_size(text, size, MEMORY)
        == f"{text}{gap}tmpfs /dev/shm tmpfs defaults,size={format_size(size)} 0 0\n"
    )


@given(rows=ROWS, cut=st.integers(0, 3), size=SIZES)
def test_a_second_run_changes_nothing(rows: list[Row], cut: int, size: int) -> None:
    """Whatever the file was, the text that came out stays as it is."""
    text = "".join(row.text() for row in rows)
    once = with_size(text[: len(text) - cut], size, MEMORY)
    assert with_size(once, size, MEMORY) == once


@given(text=st.text(st.characters(max_codepoint=0xFF), max_size=80), size=SIZES)
def test_any_bytes_survive(text: str, size: int) -> None:
    """A file of any bytes at all, none of them a /dev/shm line, is kept whole."""
    found = with_size(text, size, MEMORY)
    assert found.startswith(text)
    assert found.encode("latin-1").endswith(
        f"tmpfs /dev/shm tmpfs defaults,size={format_size(size)} 0 0\n".encode()
    )


CASES = {
    "tabs": ("tmpfs\t/dev/shm\ttmpfs\tsize=64M\t0\t0\n", "tmpfs\t/dev/shm\ttmpfs\tsize=8G\t0\t0\n"),
    "crlf": ("tmpfs /dev/shm tmpfs rw\r\nx", "tmpfs /dev/shm tmpfs rw,size=8G\r\nx"),
    "no final newline": ("tmpfs /dev/shm/ tmpfs rw", "tmpfs /dev/shm/ tmpfs rw,size=8G"),
    "percent": ("none /dev/shm tmpfs size=50%,rw 0 0", "none /dev/shm tmpfs size=8G,rw 0 0"),
    "two lines": (
        "a /dev/shm tmpfs size=1 0 0\nb /dev/shm tmpfs rw 0 0\n",
        "a /dev/shm tmpfs size=8G 0 0\nb /dev/shm tmpfs rw,size=8G 0 0\n",
    ),
    "not ASCII": (
        "# caf\xe9 \xff\nt /dev/shm tmpfs rw # \xc4\n",
        "# caf\xe9 \xff\nt /dev/shm tmpfs rw,size=8G # \xc4\n",
    ),
}


@pytest.mark.parametrize("before, after", CASES.values(), ids=CASES)
def test_a_line_as_people_write_it(before: str, after: str) -> None:
    """The shapes that users' files have, spelt out."""
    assert with_size(before, 8 << 30, MEMORY) == after


def test_flags_of_the_mount_are_kept() -> None:
    """A new line says what the mount has now of nosuid, nodev, noexec, and nothing else of it."""
    found = with_size("", 8 << 30, MEMORY, ("rw", "noexec", "relatime", "nosuid"))
    assert found == "tmpfs /dev/shm tmpfs defaults,nosuid,noexec,size=8G 0 0\n"


def test_a_line_without_options() -> None:
    """Three fields are a line that mount(8) takes; a second one would leave it as it is."""
    assert with_size("tmpfs /dev/shm tmpfs\n", 8 << 30, MEMORY) == "tmpfs /dev/shm tmpfs size=8G\n"


def test_blanks_are_those_of_fstab() -> None:
    """0xA0 and 0x85 are bytes of UTF-8 letters; fstab(5) separates fields by blanks and tabs."""
    found = with_size("tmpfs /dev/shm tmpfs rw,context=\xc3\xa0 0 0\n", 8 << 30, MEMORY)
    assert found == "tmpfs /dev/shm tmpfs rw,context=\xc3\xa0,size=8G 0 0\n"


def test_another_type_is_not_ours() -> None:
    """By the rule a bind mount needs manual action; the repair of a line beside it keeps it."""
    bind = "/mnt/big /dev/shm none bind 0 0\n"
    assert with_size(bind + "t /dev/shm tmpfs size=4G 0 0\n", 8 << 30, MEMORY).startswith(bind)
