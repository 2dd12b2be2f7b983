"""Who may change a program, and running it as that account: really, in each shell, with accounts
that every Linux has."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.probe.owner import OWNER
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS

WHO = '#!/bin/sh\nid -un; id -Gn; pwd; echo "home=$HOME python=${PYTHONPATH-} path=$PATH"; cat\n'


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that every account may go through, with a program in a folder of it."""
    folder = Path(mkdtemp(prefix="gpu-node-owner-"))
    try:
        program = folder / "env" / "bin" / "program"
        program.parent.mkdir(parents=True)
        program.write_text(WHO)
        program.chmod(0o755)
        change(f"chmod -R go-w,go+rX {folder}; chown -R root:root {folder}")
        yield folder
    finally:
        as_root(["rm", "-rf", folder])


# A machine whose setpriv does nothing.
NO_SETPRIV = ["unshare", "--mount", "sh", "-c"]
NO_SETPRIV += ['mount --bind /bin/false "$(command -v setpriv)"; exec "$@"', "sh"]


def change(commands: str) -> None:
    """Prepare the place as root."""
    as_root(["bash", "-c", f"set -e; {commands}"])


def ended(shell: str, script: str, *before: str) -> subprocess.CompletedProcess[str]:
    """How a script ends as root, or as whom `before` makes of root."""
    program, *options = SHELLS[shell]
    argv = [*before, str(shutil.which(program)), *options, "-c", f"{OWNER}\n{script}"]
    return as_root(argv, stdin="from stdin\n", check=False)


def asked(shell: str, path: Path | str) -> tuple[int, str]:
    """The account of a path, or why there is none."""
    done = ended(shell, f"owner_of {shlex.quote(str(path))}")
    return done.returncode, (done.stdout + done.stderr).strip()


OWNED: dict[str, tuple[str, str]] = {
    "all of it root's": ("true", "root"),
    "a folder of one account": ("chown -R daemon {env}", "daemon"),
    "the program alone of one account": ("chown daemon {program}", "daemon"),
    "a private group": ("chown -R daemon:daemon {env}; chmod -R g+w {env}", "daemon"),
    "the group root": ("chmod -R g+w {env}", "root"),
    "a sticky folder of root's": ("chown -R daemon {env}; chmod 1777 {place}", "daemon"),
    "a sticky folder of one account": ("chown -R daemon {env}; chmod 1777 {env}", "daemon"),
    "a link of one account": (
        "mv {program} {place}/program; ln -s ../../program {program}; chown -h daemon {program}",
        "daemon",
    ),
    "a link in a folder of one account, on the way": (
        "mkdir {place}/theirs; mv {env} {place}/real; ln -s {place}/real {place}/theirs/env; "
        "chown daemon {place}/theirs; ln -s theirs/env {env}",
        "daemon",
    ),
}


@pytest.mark.parametrize("case", OWNED)
def test_the_owner(case: str, shell: str, place: Path) -> None:
    """One account beside root, or root alone."""
    commands, account = OWNED[case]
    program = place / "env" / "bin" / "program"
    change(commands.format(place=place, env=place / "env", program=program))
    assert asked(shell, program) == (0, account)


REFUSED: dict[str, tuple[str, str]] = {
    "everyone may write the program": ("chmod o+w {program}", "everyone may write {program}"),
    "everyone may write a folder": ("chmod 777 {env}", "; chmod +t {env}"),
    "another one's sticky folder": (
        "chown bin {place}; chmod 1777 {place}; chown daemon {env}",
        "give it to one account",
    ),
    "a group with others in it": ("chgrp 100 {env}; chmod g+w {env}", "the group 100 may write"),
    "another one's group": ("chgrp daemon {program}; chmod g+w {program}", "the group 1 may write"),
    "two accounts": ("chown daemon {env}; chown bin {program}", "give it to one account"),
    "no account": ("chown 54321 {env}", "uid 54321 has no account here"),
    "a link through a folder of everyone's": (
        "mkdir -m 777 {place}/open; mv {env} {place}/open/env; ln -s open/env {env}",
        "everyone may write {place}/open",
    ),
    "links in a circle": ("rm {program}; ln -s program {program}", "cannot follow"),
    "nothing there": ("rm {program}", "No such file"),
    "a list of others": (
        "setfacl -m u:daemon:rwx {env}",
        "setfacl -b {env}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_others_may_change(case: str, shell: str, place: Path) -> None:
    """It is refused, with the path and the command that cures it."""
    commands, reason = REFUSED[case]
    paths = {"place": place, "env": place / "env", "program": place / "env" / "bin" / "program"}
    change(commands.format(**paths))
    code, output = asked(shell, paths["program"])
    assert (code, reason.format(**paths) in output) == (1, True), output


@pytest.mark.parametrize("path", ["bin/program", "/tmp/two\nlines", ""])
def test_no_path(path: str, shell: str) -> None:
    """A word that no file is named by is refused."""
    assert asked(shell, path)[0] == 1


@pytest.mark.parametrize("without", ["", "setpriv", "setsid timeout setpriv"])
@pytest.mark.parametrize("account", ["root", "daemon"])
def test_it_runs_as_its_owner(account: str, without: str, shell: str, place: Path) -> None:
    """In /, without stdin and the caller's variables, whichever program changes the account."""
    program = place / "env" / "bin" / "program"
    change(f"chown -R {account} {place}/env")
    hidden = "".join(f"{name}() {{ return 1; }}\n" for name in without.split())
    before = NO_SETPRIV if without else []
    lacks = "command() { false; }\n" if "setsid" in without else ""
    call = f'as_owner {program} {program} "it\'s" "$(printf "a\\nb")"'
    done = ended(shell, f"{hidden}{lacks}PYTHONPATH=/evil; export PYTHONPATH; {call}", *before)
    home = "/root" if account == "root" else os.path.expanduser("~daemon")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    lines = done.stdout.splitlines()
    assert (lines[0], lines[2:]) == (account, ["/", f"home={home} python= path={path}"]), done
    assert set(lines[1].split()) == {account}


def test_arguments_arrive_whole(shell: str) -> None:
    """Quotes, blanks and lines in an argument are no matter to any way of changing the account."""
    word = 'it\'s "$HOME"\n*;'
    call = f"as_account daemon printf '<%s>' {shlex.quote(word)} ''"
    assert ended(shell, call).stdout == ended(shell, call, *NO_SETPRIV).stdout == f"<{word}><>"


def test_one_that_hangs_is_killed(shell: str, place: Path) -> None:
    """After the seconds that the caller gives."""
    program = place / "env" / "bin" / "program"
    change(f"echo 'sleep 60' >>{program}; chown daemon {program}")
    done = ended(shell, f"owner_seconds=3; as_owner {program} {program}")
    assert (done.returncode, done.stdout.splitlines()[0]) == (137, "daemon")


def test_who_is_not_root_runs_what_is_root_s(shell: str, place: Path) -> None:
    """As itself, and nothing of another account's."""
    program = place / "env" / "bin" / "program"
    daemon = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    call = f"as_owner {program} {program}"
    assert ended(shell, call, *daemon).stdout.splitlines()[0] == "daemon"
    change(f"chown bin {program}")
    done = ended(shell, call, *daemon)
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr.strip() == "bin owns it, and daemon runs only what is root's or its own"


def test_a_refused_program_does_not_run(shell: str, place: Path) -> None:
    """as_owner ends with 126 and the reason."""
    program = place / "env" / "bin" / "program"
    change(f"chmod 777 {program}")
    done = ended(shell, f"as_owner {program} {program}")
    assert (done.returncode, done.stdout) == (126, "")
    assert "everyone may write" in done.stderr


def test_what_is_closed_to_root_is_its_owner_s(shell: str, place: Path) -> None:
    """A file server keeps root out: an account without rights stands for that root."""
    program = place / "env" / "bin" / "program"
    change(f"chown -R bin {place}/env; chmod 700 {place}/env")
    squashed = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    done = ended(shell, f"owner_of {program}", *squashed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bin\n", "")
    change(f"chown root {place}/env")
    done = ended(shell, f"owner_of {program}", *squashed)
    assert (done.returncode, "Permission denied" in done.stderr) == (1, True)
