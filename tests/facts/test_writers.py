"""Who may change a path: one table of cases for the shell functions and the program on a node."""

from __future__ import annotations

import shlex
import sys

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.probe.owner import OWNER
from gpu_node.facts.probe.training_user import AS_USER
from tests.node_scripts import run_apart
from tests.shells import SH

PROGRAM = "/mnt/env/bin/program"
MACHINE = f"""mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt; mkdir -p env/bin other
echo : >{PROGRAM}; chmod 755 {PROGRAM}"""
NONE = "root root root root"
# What is done to it, then who may change it: as owner.sh finds it (the account that runs a
# program), closed.sh (`others` could put another file there), copier.sh (the user who copies what
# is there), and library.py (the account that loads a library). `others`: several accounts, so that
# none is right.
CASES = {
    "all of it root's": (":", NONE),
    "a folder of one account": ("chown -R daemon env", "daemon others daemon daemon"),
    "the file alone of one account": (f"chown daemon {PROGRAM}", "daemon root daemon daemon"),
    "an account's own group": (
        "chown -R daemon:daemon env; chmod -R g+w env",
        # The program has no list of all accounts and their groups.
        "daemon others daemon others",
    ),
    "the group root": ("chmod -R g+w env", NONE),
    "the group root with a member": (
        "sed 's/^root:.*/root:x:0:daemon/' /etc/group >group; mount --bind group /etc/group; "
        "chmod g+w env",
        "others others others others",
    ),
    "a sticky folder": ("chmod 1777 env; chmod 1777 env/bin", "root others root root"),
    "a folder in a sticky one": ("chmod 1777 env", NONE),
    "a folder for all": ("chmod 777 env", "others others others others"),
    "a file for all": (f"chmod 777 {PROGRAM}", "others root others others"),
    "a group with others in it": ("chgrp 100 env; chmod g+w env", "others others others others"),
    "an access list": ("setfacl -m u:daemon:rwx env", "others others others others"),
    "two accounts": (f"chown daemon env; chown bin {PROGRAM}", "others others bin others"),
    "a link of root's": ("mv env other/env; ln -s other/env env", NONE),
    "a link of one account": (
        "mv env other/env; ln -s other/env env; chown -h daemon env",
        # The program opens the file that it has judged, and no link.
        "daemon others daemon root",
    ),
    "a link through a folder for all": (
        "mkdir -m 777 open; mv env open/env; ln -s open/env env",
        "others others others others",
    ),
    "up and down again": ("mv env other/env; ln -s ./other/../other/./env/ env", NONE),
}
FUNCTIONS = f"""{OWNER}
owner_of {PROGRAM} 2>/dev/null || echo others
{text("closed")}
if trusted {PROGRAM}; then echo root; else echo others; fi
path={PROGRAM} as_user={shlex.quote(AS_USER)}
{text("copier")}
way {PROGRAM}
if [ -n "$open" ]; then echo others; else account "${{theirs:-0}}" 1; fi"""
LIBRARY = f"""import pwd
from gpu_node.facts.nccl.on_node.library import judged
uid = judged({PROGRAM!r})[1]
print("others" if uid == 65534 else pwd.getpwuid(uid).pw_name)"""


# busybox's ls shows no access list; the systems that are supported have another one.
SHOWN = [(case, shell) for case in CASES for shell in SH]
SHOWN.remove(("an access list", "busybox"))


@pytest.mark.parametrize(("case", "shell"), SHOWN)
def test_the_shell_functions(case: str, shell: str) -> None:
    """owner_of, trusted and way."""
    commands, expected = CASES[case]
    done = run_apart(StringCommand(FUNCTIONS), shell, f"{MACHINE}\n{commands}")
    assert (done.out.split(), done.err) == (expected.split()[:3], "")


@pytest.mark.parametrize("case", CASES)
def test_the_program(case: str) -> None:
    """judged of library.py."""
    commands, expected = CASES[case]
    command = StringCommand(f"{shlex.quote(sys.executable)} -c {shlex.quote(LIBRARY)}")
    done = run_apart(command, "dash", f"{MACHINE}\n{commands}")
    assert (done.out.split(), done.err) == (expected.split()[3:], "")
