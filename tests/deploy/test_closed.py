"""closed.sh: which paths and folders no user but root can change, in every sh of a node."""

from __future__ import annotations

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import text
from tests.node_scripts import Ended, run_apart

# Below /mnt of a mount namespace: nothing of the machine is touched.
MACHINE = """mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt
mkdir var home home/u tmp data; chmod 1777 tmp; chown 1234:1234 home/u; chown 0:4321 data"""
# What is made before, the path, and where it is or why no other user must be able to change it.
TRUSTED = {
    "a folder of root's": ("", "/mnt/var", "/mnt/var"),
    "one that is missing": ("", "/mnt/var/a/b", "/mnt/var/a/b"),
    "slashes and dots": ("", "//mnt/./var/x/../y//", "/mnt/var/y"),
    "a link of root's": ("ln -s var link", "/mnt/link/a", "/mnt/var/a"),
    "a link up": ("ln -s ../var/x home/link", "/mnt/home/link", "/mnt/var/x"),
    "root's group": ("chmod 775 var", "/mnt/var/a", "/mnt/var/a"),
    "root's group with a user in it": (
        "sed 's/^root:.*/root:x:0:daemon/' /etc/group >g; mount --bind g /etc/group; chmod 775 var",
        "/mnt/var/a",
        "other than root may write in /mnt/var",
    ),
    "root's in a sticky folder": ("mkdir tmp/r", "/mnt/tmp/r/a", "/mnt/tmp/r/a"),
    "sticky for a group": ("chmod 1775 data; mkdir data/r", "/mnt/data/r/a", "/mnt/data/r/a"),
    "a user's file in a folder of root's": (
        "touch var/f; chown 1234 var/f",
        "/mnt/var/f",
        "/mnt/var/f",
    ),
    "a home": ("", "/mnt/home/u/a", "/mnt/home/u belongs to uid 1234"),
    "a home itself": ("", "/mnt/home/u", "/mnt/home/u belongs to uid 1234"),
    "a link into a home": ("ln -s ../home/u var/l", "/mnt/var/l/a", "/mnt/home/u belongs to"),
    "a way through a home": (
        "ln -s ../home/u/l var/l; ln -s /mnt/var home/u/l",
        "/mnt/var/l",
        "/mnt/home/u belongs to",
    ),
    "a user's link": (
        "ln -s /mnt/var tmp/l; chown -h 1234 tmp/l",
        "/mnt/tmp/l/a",
        "/mnt/tmp/l bel",
    ),
    "any link in a sticky folder": ("ln -s /mnt/var tmp/l", "/mnt/tmp/l/a", "cannot be followed"),
    "a file in a sticky folder": (
        "touch tmp/f",
        "/mnt/tmp/f",
        "other than root may write in /mnt/tmp",
    ),
    "nothing in a sticky folder": ("", "/mnt/tmp/f", "other than root may write in /mnt/tmp"),
    "a folder for all": ("chmod 777 var", "/mnt/var/a", "other than root may write in /mnt/var"),
    "an empty group of the system's": (
        "chown 0:50 data; chmod 775 data",
        "/mnt/data/a",
        "/mnt/data/a",
    ),
    "an empty group that not every system has": (
        "{ cat /etc/group; echo gpus:x:150:; } >g; mount --bind g /etc/group; "
        "chown 0:150 data; chmod 775 data",
        "/mnt/data/a",
        "other than root may write in /mnt/data",
    ),
    "a group that an account has": (
        "chown 0:65534 data; chmod 775 data",
        "/mnt/data/a",
        "other than root may write in /mnt/data",
    ),
    "another group": ("chmod 775 data", "/mnt/data/a", "other than root may write in /mnt/data"),
    "a user's sticky folder": (
        "mkdir home/u/t; chown 1234 home/u/t; chmod 1777 home/u/t; chown 0 home/u",
        "/mnt/home/u/t/a",
        "/mnt/home/u/t belongs to uid 1234",
    ),
    "a file on the way": ("touch var/f", "/mnt/var/f/a", "/mnt/var/f is not a folder"),
    "links in a circle": ("ln -s b a; ln -s a b", "/mnt/a/x", "a link that cannot be followed"),
    "a path that is not absolute": ("", "mnt/var", "mnt/var is not an absolute path"),
}
CLOSED = {
    "all missing": ("", "/mnt/var/b /mnt/var/b/RUN/home/u", ""),
    "older and open": (
        "mkdir -p var/b/RUN/home; chmod 755 var/b var/b/RUN",
        "/mnt/var/b /mnt/var/b/RUN/home",
        "",
    ),
    "one alone": ("", "/mnt/var/b", ""),
    "a link to a home": (
        "ln -s /mnt/home/u var/b",
        "/mnt/var/b",
        "/mnt/home/u belongs to uid 1234",
    ),
    "a link to root's": ("ln -s /mnt/data var/b", "/mnt/var/b", "/mnt/var/b is a link"),
    "a link below": (
        "mkdir var/b; ln -s /mnt/data var/b/RUN",
        "/mnt/var/b /mnt/var/b/RUN/a",
        "/mnt/var/b/RUN is a link, and must be a folder: remove it",
    ),
    "a user's below": (
        "mkdir -p var/b/RUN; chown 1234 var/b/RUN",
        "/mnt/var/b /mnt/var/b/RUN/a",
        "/mnt/var/b/RUN belongs to another user",
    ),
    "a user's itself": ("mkdir var/b; chown 1234 var/b", "/mnt/var/b", "/mnt/var/b belongs to uid"),
    "a file": ("touch var/b", "/mnt/var/b", "/mnt/var/b is not a folder"),
    "a file below": ("mkdir var/b; touch var/b/RUN", "/mnt/var/b /mnt/var/b/RUN", "cannot be made"),
    "in a home": ("", "/mnt/home/u/b", "/mnt/home/u belongs to uid 1234"),
    "out of it": ("", "/mnt/var/b /mnt/var/b/../../home", "leads out of /mnt/var/b"),
    "in a folder for all": ("chmod 777 var", "/mnt/var/b", "other than root may write in /mnt/var"),
}


def done(call: str, shell: str, before: str, *after: str) -> Ended:
    """Call a function of closed.sh there; what it finds is printed."""
    report = f'if {call}; then echo "real ${{real-}}"; else echo "why $why"; fi'
    functions = text("writers") + text("closed")
    return run_apart(StringCommand(f"set -u\n{functions}\n{report}"), shell, before, after)


@pytest.mark.parametrize(("before", "path", "expected"), TRUSTED.values(), ids=TRUSTED)
def test_trusted(before: str, path: str, expected: str, shell: str) -> None:
    """Where it is, or what another user could do."""
    ended = done(f"trusted {path}", shell, f"{MACHINE}\n{before}")
    if expected.startswith("/mnt") and " " not in expected:
        assert (ended.out, ended.err) == (f"real {expected}\n", "")
    else:
        assert ended.out.startswith("why ") and expected in ended.out, ended


@pytest.mark.parametrize(("before", "paths", "expected"), CLOSED.values(), ids=CLOSED)
def test_closed(before: str, paths: str, expected: str, shell: str) -> None:
    """Each folder is root's with mode 0700 afterwards; else the reason, and no home is touched."""
    below = paths.split()[-1]
    if expected:
        untouched = ['[ "$(stat -c %u:%a /mnt/home/u)$(ls -A /mnt/home/u)" = 1234:755 ]']
        ended = done(f"closed {paths}", shell, f"{MACHINE}\n{before}", *untouched)
        assert ended.out.startswith("why ") and expected in ended.out, ended
        assert (ended.code, ended.err) == (0, "")
        return
    after = [
        f'd={below}; while [ "$d" != /mnt/var ]; do [ "$(stat -c %u:%a "$d")" = 0:700 ] || '
        "exit 98; d=${d%/*}; done",
        "[ $(stat -c %a /mnt/var) = 755 ]",
    ]
    ended = done(f"closed {paths}", shell, f"{MACHINE}\n{before}", *after)
    assert ended.out.startswith("real ") and (ended.code, ended.err) == (0, "")
