"""fstab's new text: the size of /dev/shm changes, every other byte of a user's file stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deploy.operations.shm import with_size
from facts.shm import parse_fstab

NEW = "tmpfs /dev/shm tmpfs defaults,size=8G 0 0\n"
# What is in the file, and what it becomes.
EDITS = {
    "an empty file": ("", NEW),
    "no line": ("UUID=1 / xfs defaults 0 0\n", f"UUID=1 / xfs defaults 0 0\n{NEW}"),
    "no newline at the end": ("/dev/sda1 / xfs", f"/dev/sda1 / xfs\n{NEW}"),
    "another size": ("tmpfs /dev/shm tmpfs defaults,size=64M 0 0\n", NEW),
    "a size in percent": ("tmpfs /dev/shm tmpfs size=50%,mode=1777 0 0\n",
                          "tmpfs /dev/shm tmpfs size=8G,mode=1777 0 0\n"),
    "an empty size": ("tmpfs /dev/shm tmpfs size=,ro 0 0\n",
                      "tmpfs /dev/shm tmpfs size=8G,ro 0 0\n"),
    "no size": ("tmpfs /dev/shm tmpfs defaults 0 0\n", NEW),
    "two sizes in one line": ("tmpfs /dev/shm tmpfs size=1G,size=2G 0 0\n",
                              "tmpfs /dev/shm tmpfs size=8G,size=8G 0 0\n"),
    "no dump and pass": ("tmpfs /dev/shm tmpfs defaults\n",
                         "tmpfs /dev/shm tmpfs defaults,size=8G\n"),
    "no newline after the line": ("none /dev/shm tmpfs defaults",
                                  "none /dev/shm tmpfs defaults,size=8G"),
    "tabs and odd spacing": (" tmpfs\t/dev/shm  \ttmpfs   rw,size=1G\t0  0 \n",
                             " tmpfs\t/dev/shm  \ttmpfs   rw,size=8G\t0  0 \n"),
    "a slash at the end": ("tmpfs /dev/shm/ tmpfs size=1G 0 0\n",
                           "tmpfs /dev/shm/ tmpfs size=8G 0 0\n"),
    "CRLF": ("tmpfs /dev/shm tmpfs defaults\r\n# end\r\n",
             "tmpfs /dev/shm tmpfs defaults,size=8G\r\n# end\r\n"),
    "two lines": ("a /dev/shm tmpfs size=1G 0 0\nb /dev/shm tmpfs rw 0 0\n",
                  "a /dev/shm tmpfs size=8G 0 0\nb /dev/shm tmpfs rw,size=8G 0 0\n"),
    "a comment after the fields": ("tmpfs /dev/shm tmpfs rw 0 0 # /dev/shm size=1G\n",
                                   "tmpfs /dev/shm tmpfs rw,size=8G 0 0 # /dev/shm size=1G\n"),
    "an option that ends in size": ("tmpfs /dev/shm tmpfs x-size=1G,huge=never 0 0\n",
                                    "tmpfs /dev/shm tmpfs x-size=1G,huge=never,size=8G 0 0\n"),
}  # fmt: skip
# Lines that are about something else.
OTHERS = [
    "# tmpfs /dev/shm tmpfs size=64M 0 0\n",
    "#tmpfs /dev/shm tmpfs size=64M 0 0\n",
    "  # /dev/shm tmpfs size=64M\n",
    "tmpfs /dev/shm2 tmpfs size=64M 0 0\n",
    "tmpfs /scratch/dev/shm tmpfs size=64M 0 0\n",
    "tmpfs /dev/shm/sub tmpfs size=64M 0 0\n",
    "/dev/shm /mnt none bind,size=64M 0 0\n",
    "tmpfs\t/scratch  \ttmpfs   size=2G,mode=1777,nosuid\t0  0\n",
    "\n",
    "   \t\n",
    "\xce\xc4\xbc\xfe\n",
    "swap\r\n",
]


@pytest.mark.parametrize("name", EDITS)
def test_the_size_is_given(name: str) -> None:
    """Each shape of file gets the size and keeps the rest."""
    before, after = EDITS[name]
    assert with_size(before, "8G") == after


@pytest.mark.parametrize("name", EDITS)
def test_a_second_time_changes_nothing(name: str) -> None:
    """The new text is as wanted."""
    _, after = EDITS[name]
    assert with_size(after, "8G") == after


@pytest.mark.parametrize("line", OTHERS)
def test_lines_about_something_else_stay(line: str) -> None:
    """Comments, neighbours and bind mounts are no line for /dev/shm."""
    assert with_size(line, "8G") == f"{line}{NEW}"
    assert with_size(f"{line}{NEW}", "16G") == f"{line}{NEW}".replace("8G", "16G")


def test_a_new_line_keeps_the_flags_of_the_mount() -> None:
    """What the running system forbids in /dev/shm is forbidden after the boot too."""
    flags = ("rw", "nosuid", "nodev", "noexec", "relatime")
    assert with_size("", "8G", flags) == (
        "tmpfs /dev/shm tmpfs defaults,nosuid,nodev,noexec,size=8G 0 0\n"
    )


BYTES = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b" ").decode("latin-1"))
SHM_LINES = st.builds(
    "{}{}{}/dev/shm{}tmpfs{}{}{}".format,
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["tmpfs", "none", "shm"]),
    st.sampled_from([" ", "\t", "  \t"]),
    st.sampled_from([" ", "\t"]),
    st.sampled_from([" ", "\t\t"]),
    st.sampled_from(["defaults", "rw,size=64M,nosuid", "size=50%", "rw"]),
    st.sampled_from(["", " 0 0", "\t0\t0  ", " 0 0 # caf\xc3\xa9", "\r"]),
)
FILES = st.lists(st.one_of(BYTES, st.sampled_from(OTHERS), SHM_LINES), max_size=6).map("\n".join)


def _without_size(text: str) -> str:
    return re.sub(r",?size=[^,\s]*", "", text)


@given(FILES)
@example("tmpfs /dev/shm tmpfs rw\r\n\xa0x /dev/shm y z")
def test_every_other_byte_stays(before: str) -> None:
    """Apart from size options, the old text is the beginning of the new one, byte for byte."""
    after = with_size(before, "8G")
    assert after.encode("latin-1")
    assert _without_size(after).startswith(_without_size(before))
    assert with_size(after, "8G") == after


@given(FILES)
def test_the_new_text_satisfies_the_facts(before: str) -> None:
    """What the probe's awk would pass on of the new file gives /dev/shm the wanted size."""
    lines = with_size(before, "8G").split("\n")
    ours = [line for line in lines if _is_ours(line)]
    assert ours
    assert all(line.size == "8G" for line in parse_fstab("\n".join(f"1 {line}" for line in ours)))


def _is_ours(line: str) -> bool:
    fields = re.split(r"[ \t]+", line.strip(" \t"))
    return len(fields) > 3 and not fields[0].startswith("#") and fields[1] in (
        "/dev/shm",
        "/dev/shm/",
    )  # fmt: skip
