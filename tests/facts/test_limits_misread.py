"""Which lines of limits.d count: what pam_limits of this machine does, and what is reported."""

from __future__ import annotations

import shlex
from base64 import b64decode

import pytest

from gpu_node.facts.limits.misread import misread, parse_misread
from gpu_node.facts.limits.state import SECTIONS
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS

FOLDER = "/etc/security/limits.d"
# Below what any session has, so that each session can get it.
WANTED = "64 64"
# A file's text; whether it sets what it is meant to, and what is wrong with its first line.
CASES: dict[str, tuple[str, bool, str]] = {
    "right": ("* - nofile 64\n", True, ""),
    "no line end": ("* - nofile 64", True, ""),
    "carriage returns": ("# ours\r\n\r\n* - nofile 64\r\n", True, ""),
    "tabs and a comment": ("*\t-\tnofile\v64\t# eight\n", True, ""),
    "capitals": ("* - NOFILE 64\n", True, ""),
    "a fifth word": ("* - nofile 64 at most\n", True, ""),
    "a sign": ("* - nofile +64\n", True, ""),
    "a mark before a comment": ("\xef\xbb\xbf# ours\n* - nofile 64\n", True, ""),
    "a line of two before it": ("nobody -x\n", False, ""),
    "three words": ("* - nofile\n", False, "it has 3 of the 4 words"),
    "two words": ("* nofile\n", False, "it has 2 of the 4 words"),
    "no such item": ("* - nofiles 64\n", False, "there is no item nofiles"),
    "no such type": ("* both nofile 64\n", False, "there is no type both"),
    "an assignment": ("* - nofile = 64\n", False, "= is not a number"),
    "quotes": ('* - nofile "64"\n', False, '"64" is not a number'),
    "a negative number": ("* - nofile -64\n", False, "-64 is below 0"),
    "a mark before a line": ("\xef\xbb\xbf* - nofile 64\n", False, "a byte order mark"),
    "a unit": ("* - nofile 64k\n", True, "it is read as 64: pam_limits ignores k"),
    "carriage returns alone": ("# ours\r* - nofile 64\r", False, "it has carriage returns"),
    "carriage returns between": ("* - nofile 64\r* - nproc 9\r", True, "it has carriage returns"),
}


def session(text: str) -> str:
    """The soft and the hard limit of a session, with a file of this text alone in limits.d."""
    octal = "".join(f"\\{each:03o}" for each in text.encode("latin-1"))
    script = f"""mount -t tmpfs none {FOLDER}
printf '{octal}' >{FOLDER}/test.conf
su -s /bin/sh nobody -c 'echo $(ulimit -Sn) $(ulimit -Hn)'"""
    return as_root(["unshare", "--mount", "sh", "-c", script]).stdout.strip()


def reported(text: str, shell: str) -> str:
    """What the section of the probe reports about such a file."""
    (section,) = (each for each in SECTIONS if each.name == "limits.files")
    octal = "".join(f"\\{each:03o}" for each in text.encode("latin-1"))
    words = shlex.join([*SHELLS[shell], "-c", section.command])
    script = f"""mount -t tmpfs none /etc/security; mkdir {FOLDER}
printf '{octal}' >{FOLDER}/test.conf
{words} | base64"""
    # Python would read each carriage return as the end of a line.
    printed = as_root(["unshare", "--mount", "sh", "-c", script]).stdout
    return b64decode(printed).decode()


@pytest.mark.parametrize(("text", "counts", "why"), CASES.values(), ids=CASES)
def test_what_pam_limits_does(text: str, counts: bool, why: str) -> None:
    """A line that does not count is reported, and one that counts is not, unless it is misread."""
    assert (session(text) == WANTED) == counts
    found = [misread(line) for line in text.split("\n")]
    assert [each for each in found if each] == [each for each in found if why and why in each]
    assert any(found) == bool(why)


def test_what_the_probe_reports(shell: str) -> None:
    """With the line's number; a file whose lines end in carriage returns alone has one line."""
    text = "# ours\n* - nofile\n\n* - nofile 64\r\n* - memlock 64G\n"
    found = parse_misread(reported(text, shell))
    assert [(each.path, each.line, each.text) for each in found] == [
        (f"{FOLDER}/test.conf", 2, "* - nofile"),
        (f"{FOLDER}/test.conf", 5, "* - memlock 64G"),
    ]
    (alone,) = parse_misread(reported("# ours\r* - nofile 64\r", shell))
    assert (alone.line, alone.text) == (1, "# ours * - nofile 64")
