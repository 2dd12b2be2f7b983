"""An environment's Python is asked as the account that may change it, and not as root."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.nccl.on_node.library import NOBODY, judged, library
from gpu_node.facts.nccl.on_node.loading import opened
from gpu_node.facts.probe.owner import ENVIRONMENT_OWNER, OWNER
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned
from gpu_node.lab.machine import as_root
from tests import environments
from tests.shells import SHELLS, as_lines

# A line of a .pth file, which site.py runs.
WHO = "import os; open(os.path.join('{place}', 'ran/as'), 'a').write('%d\\n' % os.geteuid())\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with root's environment, whose Python writes at its start as whom it runs."""
    place = Path(mkdtemp(prefix="gpu-node-owner-"))
    try:
        # Who may change its base is looked up in all of it: a distribution's has few files.
        made = environments.environment(place / "env", python="/usr/bin/python3")
        (made.packages / "who.pth").write_text(WHO.format(place=place))
        (place / "ran").mkdir()
        change(
            f"chmod -R go-w,go+rX {place}; chown -hR root:root {place}; chmod 777 {place}/ran; "
            f"rm -f {made.packages}/pip; mkdir {made.packages}/pip"
        )
        yield place
    finally:
        as_root(["rm", "-rf", place])


def change(commands: str) -> None:
    """Prepare the place as root."""
    as_root(["bash", "-c", f"set -e; {commands}"])


def asked(place: Path, shell: str = "dash", *before: str) -> tuple[str, set[str]]:
    """Why it is unreadable, or nothing; and the uids that its Python ran as."""
    (section,) = nccl.sections(ProbeRequest([str(place / "env")]))[-1:]
    program, *options = SHELLS[shell]
    argv = [*before, str(shutil.which(program)), *options, "-c", render([section])]
    readings = read(as_lines(as_root(argv).stdout.encode()), [section])
    readings.take(section.name, nccl.parse_environment)
    found = readings.unread[0].reason if readings.unread else ""
    ran = place / "ran" / "as"
    return found, set(ran.read_text().split()) if ran.exists() else set()


RUNS_AS: dict[str, tuple[str, str]] = {
    "all of it root's": ("true", "0"),
    "a user's environment": ("chown -hR daemon:daemon {env}", "1"),
    "a user's folder on the way": ("chown daemon {place}; chmod 755 {place}", "1"),
    "a user's package folder": ("chown daemon {packages}", "1"),
    "a user's start file": ("chown daemon {packages}/who.pth", "1"),
    "a user's pip": ("chown daemon {packages}/pip", "1"),
    "a user's folder in a .pth file": (
        "mkdir {place}/src; chown daemon {place}/src; echo {place}/src >{packages}/x.pth",
        "1",
    ),
    "a user's missing folder in a .pth file": (
        "mkdir {place}/src; chown daemon {place}/src; echo {place}/src/gone >{packages}/x.pth",
        "1",
    ),
    "a user's link": ("ln -s /etc/passwd {packages}/x.pth; chown -h daemon {packages}/x.pth", "1"),
    "root's link to a user's file": (
        "mkdir {place}/theirs; touch {place}/theirs/x.pth; chown -R daemon {place}/theirs; "
        "ln -s {place}/theirs/x.pth {packages}/x.pth",
        "1",
    ),
    "a link to nothing": ("ln -s gone {packages}/gone", "0"),
    "a link to a user's missing file": (
        "mkdir {place}/theirs; chown daemon {place}/theirs; "
        "ln -s {place}/theirs/x.pth {packages}/x.pth",
        "1",
    ),
    "a user's Python that its own is a copy of": (
        "mkdir -p {place}/theirs/bin; ln -s $({env}/bin/python -S -c 'import sysconfig as s; "
        'print(s.get_config_var("installed_base"))\')/lib {place}/theirs/lib; '
        "chown -hR daemon {place}/theirs; "
        "sed -i 's,^home.*,home = {place}/theirs/bin,' {env}/pyvenv.cfg",
        "1",
    ),
    "a user's bytecode": (
        "cd {env}/lib; mkdir -p python3.0/json/__pycache__; touch python3.0/json/__pycache__/x; "
        "chown daemon python3.0/json/__pycache__/x",
        "1",
    ),
    "a user's folder of a distribution's Python": (
        "mkdir -p {env}/local/lib/python3.0/dist-packages; "
        "chown daemon {env}/local/lib/python3.0/dist-packages",
        "1",
    ),
    "a user's file behind many of a harmless group": (
        "cd {packages}; for each in $(seq 60); do touch 0$each; done; chgrp 50 0*; chmod g+w 0*; "
        "touch 1; chown daemon 1",
        "1",
    ),
    "a user's package that a .pth file imports": (
        "mkdir {packages}/started; touch {packages}/started/__init__.py; "
        "chown daemon {packages}/started/__init__.py; echo import started >{packages}/x.pth",
        "1",
    ),
    "a user's start file in root's folder of a .pth file": (
        "mkdir {place}/src; touch {place}/src/sitecustomize.py; "
        "chown daemon {place}/src/sitecustomize.py; echo {place}/src >{packages}/x.pth",
        "1",
    ),
    "a user's package in root's folder, and an import": (
        "mkdir -p {place}/src/deep/x; touch {place}/src/deep/x/y.py; "
        "chown daemon {place}/src/deep/x/y.py; echo {place}/src >{packages}/x.pth; "
        "echo import json >{packages}/y.pth",
        "1",
    ),
    "a user's path in an import of a .pth file": (
        "mkdir {place}/src; chown daemon {place}/src; "
        """echo "import sys; sys.path.insert(0, '{place}/src')" >{packages}/x.pth""",
        "1",
    ),
    "a user's path in an import of a .pth file, in other quotes": (
        "mkdir {place}/src; chown daemon {place}/src; "
        """echo 'import sys; sys.path.append("{place}/src/gone")' >{packages}/x.pth""",
        "1",
    ),
    "a user's list of what root's pip removes": (
        "mkdir {packages}/x-1.dist-info; touch {packages}/x-1.dist-info/RECORD; "
        "chown daemon {packages}/x-1.dist-info/RECORD",
        "1",
    ),
    "a user's settings of pip": ("chown daemon {env}/pip.conf", "1"),
    "a user's file that root's settings of pip are a link to": (
        "mkdir {place}/theirs; mv {env}/pip.conf {place}/theirs; chown -R daemon {place}/theirs; "
        "ln -s {place}/theirs/pip.conf {env}/pip.conf",
        "1",
    ),
    "a user's settings of OpenSSL": (
        "mkdir {env}/ssl; touch {env}/ssl/openssl.cnf; chown daemon {env}/ssl/openssl.cnf",
        "1",
    ),
    "a package folder of root's group": ("chmod g+w {packages}", "0"),
    "a user's Python": (
        "mkdir -p {place}/theirs/bin; mv {env}/bin/python {place}/theirs/bin; "
        "ln -sf {place}/theirs/bin/python {env}/bin/python3; chown -R daemon {place}/theirs",
        "1",
    ),
}


# The others are further places of the same kinds.
QUICK = (
    "all of it root's",
    "a user's environment",
    "a user's folder on the way",
    "a user's missing folder in a .pth file",
    "a user's link",
    "a link to a user's missing file",
    "a user's Python that its own is a copy of",
    "a user's file behind many of a harmless group",
    "a user's package in root's folder, and an import",
    "a user's path in an import of a .pth file",
    "a user's settings of pip",
    "a package folder of root's group",
    "a user's Python",
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each not in QUICK), id=each)
        for each in RUNS_AS
    ],
)
def test_who_runs_it(case: str, place: Path) -> None:
    """Root where root alone may change it; the account that may, where there is one."""
    commands, uid = RUNS_AS[case]
    packages = environments.Environment(place / "env").packages
    change(commands.format(place=place, env=place / "env", packages=packages))
    assert asked(place) == ("", {uid})


# A base Python of root, with the packages that a distribution's has, which an environment shares.
BASE = """
for each in usr/bin usr/lib/python3/dist-packages usr/local/lib/python3.0/dist-packages src env/bin
do mkdir -p {place}/$each; done
cp {python} {place}/usr/bin/python3
rm -rf {place}/env; mkdir -p {place}/env/bin {place}/env/lib/python3.0/site-packages
ln -s {place}/usr/bin/python3 {place}/env/bin/python3
printf 'home = %s/usr/bin\ninclude-system-site-packages = %s\n' {place} {shares} \\
  >{place}/env/pyvenv.cfg
"""
OF_BASE = {
    "a user's folder in a .pth file": (
        "echo {place}/src >usr/lib/python3/dist-packages/x.pth; chown daemon src"
    ),
    "a user's folder in a .pth file of local packages": (
        "echo {place}/src >usr/local/lib/python3.0/dist-packages/x.pth; chown daemon src"
    ),
    "a user's local packages": "chown daemon usr/local/lib/python3.0/dist-packages",
}


@pytest.mark.parametrize("case", OF_BASE)
def test_the_packages_of_its_base(case: str, shell: str, place: Path) -> None:
    """Python starts with them, too, unless the environment is isolated from them."""
    program, *options = SHELLS[shell]
    asks = f"{OWNER}{ENVIRONMENT_OWNER}environment_owner {place}/env {place}/env/bin/python3"
    for shares, account in (("true", "daemon"), ("false", "root")):
        words = {"place": place, "shares": shares, "python": "/bin/true"}
        change(f"{BASE}cd {{place}}; {OF_BASE[case]}".format(**words))
        done = as_root([str(shutil.which(program)), *options, "-c", asks])
        assert done.stdout.split() == [account], done


@pytest.mark.parametrize(("pip", "account"), [("other", "daemon"), ("pip", "root")])
def test_the_pip_of_its_base(pip: str, account: str, place: Path) -> None:
    """Where it has none, as those of uv, its base's runs: with what that loads, isolated or not."""
    words = {"place": place, "shares": "false", "python": "/bin/true"}
    packages = place / "env/lib/python3.0/site-packages"
    for case in OF_BASE.values():
        change(f"{BASE}cd {{place}}; mkdir {packages / pip}; {case}".format(**words))
        given = {"prefix": str(place / "env"), "run": "id -un", "tidy": ""}
        given |= {"pushed": "", "owner": f"{OWNER}{ENVIRONMENT_OWNER}"}
        done = as_root(["sh", "-c", f"note() {{ :; }}; {assigned(**given)}{text('by_owner')}"])
        assert done.stdout.split() == [account], done


# What Python imports at its start, and what it does not, where no .pth file imports anything.
AT_START = {
    "src/sitecustomize.py": "daemon",
    "src/__pycache__/usercustomize.cpython-311.pyc": "daemon",
    "src/x.py": "root",
    "{packages}/sitecustomize/__init__.py": "daemon",
    "{packages}/x/__init__.py": "root",
}


@pytest.mark.parametrize("file", AT_START)
def test_what_is_imported_at_each_start(file: str, shell: str, place: Path) -> None:
    """Root's folder may have a user's file; `src` is in a .pth file."""
    packages = environments.Environment(place / "env").packages
    named = file.format(packages=packages)
    change(
        f"cd {place}; rm {packages}/*.pth; mkdir src; echo {place}/src >{packages}/x.pth; "
        f"mkdir -p $(dirname {named}); touch {named}; chown daemon {named}"
    )
    program, *options = SHELLS[shell]
    asks = f"{OWNER}{ENVIRONMENT_OWNER}environment_owner {place}/env {place}/env/bin/python3"
    done = as_root([str(shutil.which(program)), *options, "-c", asks])
    assert done.stdout.split() == [AT_START[file]], done


def test_in_each_shell(shell: str, place: Path) -> None:
    """The same, as the owner."""
    change(f"chown -hR daemon:daemon {place}/env")
    assert asked(place, shell) == ("", {"1"})


REFUSED: dict[str, tuple[str, str]] = {
    "everyone's package folder": ("chmod o+w {packages}", "everyone may write {packages}"),
    "a group's package folder": (
        "chgrp 100 {packages}; chmod g+w {packages}",
        "the group 100 may write {packages}",
    ),
    "a user of an access list": (
        "chmod g+w {packages}/pip; setfacl -m u:daemon:rwx {packages}",
        "others may write {packages}; setfacl -b",
    ),
    "everyone's way": ("chmod 777 {place}", "everyone may write {place}"),
    "everyone's folder in a .pth file": (
        "mkdir -m 1777 {place}/src; echo {place}/src/gone >{packages}/x.pth",
        "everyone may write {place}/src",
    ),
    "two users": ("chown daemon {packages}; chown bin {packages}/pip", "give it to one account"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_others_may_change_is_not_run(case: str, place: Path) -> None:
    """The environment is unreadable, and its Python has not run."""
    commands, reason = REFUSED[case]
    packages = environments.Environment(place / "env").packages
    words = {"place": place, "env": place / "env", "packages": packages}
    change(commands.format(**words))
    reason_given, ran = asked(place)
    assert (reason.format(**words) in reason_given, ran) == (True, set()), reason_given


def test_a_member_of_roots_group(place: Path, tmp_path: Path) -> None:
    """What that group may write a user may write."""
    (tmp_path / "getent").write_text(
        '#!/bin/sh\n[ "$1 $2" != "group 0" ] || { echo root:x:0:daemon; exit; }\n'
        f'exec {shutil.which("getent")} "$@"\n'
    )
    (tmp_path / "getent").chmod(0o755)
    packages = environments.Environment(place / "env").packages
    change(f"chmod g+w {packages}/pip")
    reason_given, ran = asked(place, "dash", "env", f"PATH={tmp_path}:{os.environ['PATH']}")
    assert (f"the group 0 may write {packages}/pip" in reason_given, ran) == (True, set()), (
        reason_given
    )


def test_an_ssh_user_runs_what_is_root_s_and_not_another_one_s(place: Path) -> None:
    """What another account may change would get the SSH user's rights, its sudo among them."""
    daemon = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    assert asked(place, "dash", *daemon) == ("", {"1"})
    change(f"rm {place}/ran/as; chown -hR bin {place}/env")
    reason_given, ran = asked(place, "dash", *daemon)
    assert (reason_given, ran) == (
        "exit 126: bin owns it, and daemon runs only what is root's or its own",
        set(),
    )


def test_a_library_that_a_user_may_change_is_not_loaded_by_root(place: Path) -> None:
    """What LD_LIBRARY_PATH leads torch to is asked for its version as its owner."""
    source = "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) void f(void) {"
    source += (
        f'FILE *o = fopen("{place}/ran/as", "a"); fprintf(o, "%d\\n", geteuid()); fclose(o); }}'
    )
    source += "int ncclGetVersion(int *v) { *v = 21903; return 0; }\n"
    made = environments.Environment(place / "env")
    change(f"rm {made.packages}/who.pth; mkdir {place}/theirs")
    (place / "nccl.c").write_text(source)
    library = made.packages / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    change(
        f"mkdir -p {library.parent}; cc -shared -fPIC -o {place}/theirs/libnccl.so.2 "
        f"{place}/nccl.c; chown -R daemon {place}/theirs; "
        f"ln -s {place}/theirs/libnccl.so.2 {library}"
    )
    reason_given, ran = asked(place)
    assert (reason_given, ran) == ("", {str(1 if os.geteuid() == 0 else os.geteuid())})


# Lets a link lead to one library and to another, in turn.
SWAPPING = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **to) {
  for (;;) {
    symlink(to[2 + (count = !count)], to[4]);
    rename(to[4], to[1]);
    usleep(3000);
  }
}
"""
# Says who loads it.
LOADED = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) void f(void) {
  FILE *o = fopen("%s", "a"); fprintf(o, "%%d\\n", geteuid()); fclose(o);
}
int ncclGetVersion(int *v) { *v = 21903; return 0; }
"""
# Asks for the version often: what the link leads to changes while the Python that loads it starts.
ASKING = """
import sys
import time
from gpu_node.facts.nccl.on_node.library import library
for _ in range(12):
    library(sys.argv[1], lambda *_: False)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_link_that_is_swapped_meanwhile(place: Path) -> None:
    """Root loads the library that it has judged, and no other that the same name leads to."""
    theirs, roots, ran = place / "theirs", place / "roots", place / "ran" / "as"
    sources = {"swap": SWAPPING, "evil": LOADED % ran, "good": LOADED % "/dev/null"}
    for name, source in sources.items():
        (place / f"{name}.c").write_text(source)
    compiled = "cc -shared -fPIC -o"
    change(
        f"cd {place}; mkdir theirs roots; cc -o swap swap.c 2>/dev/null; "
        f"{compiled} theirs/libevil.so evil.c; {compiled} roots/libnccl.so.2 good.c; "
        "ln -s ../roots/libnccl.so.2 theirs/libnccl.so.2; chown -hR daemon theirs; rm -f ran/as"
    )
    swapped, good, evil = theirs / "libnccl.so.2", roots / "libnccl.so.2", theirs / "libevil.so"
    words = [place / "swap", swapped, good, evil, theirs / "new"]
    with subprocess.Popen(["setpriv", "--reuid=1", "--clear-groups", *words]) as swapping:
        as_root([sys.executable, "-c", ASKING, swapped])
        swapping.kill()
    assert "0" not in (ran.read_text().split() if ran.exists() else [])


def theirs(place: Path, source: str) -> Path:
    """A libnccl that belongs to another user, where root loads libraries."""
    (place / "lib.c").write_text(source)
    made = place / "theirs" / "libnccl.so.2"
    change(f"cd {place}; mkdir theirs; cc -shared -fPIC -o {made} lib.c; chown -hR daemon theirs")
    return made


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_users_library_is_not_opened_by_root(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then it could be any file; its version is asked for as that user."""
    made = theirs(place, LOADED % "/dev/null" + 'const char *t = "NCCL version 2.19.3+cuda12.3";\n')
    by_root = lambda path: pytest.fail(f"root opens {path}")  # noqa: E731 (a stand-in)
    monkeypatch.setattr("gpu_node.facts.nccl.on_node.builds.opened", by_root)
    monkeypatch.setattr("gpu_node.facts.nccl.on_node.library.opened", by_root)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")  # of these tests, below a home
    found = library(str(made), lambda *_: True)
    assert found is not None
    assert (found["version"], found["problem"], found["sha256"]) == (21903, None, None)


ENDLESS = """
#include <unistd.h>
static char text[1 << 20];
__attribute__((constructor)) void f(void) { while (write(1, text, sizeof text) > 0); }
"""
STRANGE = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) void f(void) {
  puts("x\\n99999999999999999999"); fflush(stdout); _exit(0);
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
@pytest.mark.parametrize(
    ("source", "problem"),
    [(ENDLESS, "it prints more than 65536 bytes"), (STRANGE, "its version is '9999999")],
    ids=["endless", "strange"],
)
def test_what_a_users_library_prints_has_bounds(
    place: Path, monkeypatch: pytest.MonkeyPatch, source: str, problem: str
) -> None:
    """It fills no memory, and no environment is unreadable for it."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    found = library(str(theirs(place, source)), lambda *_: False)
    assert found is not None and found["version"] is None
    assert found["problem"].startswith(problem)


@pytest.mark.skipif(os.geteuid() != 0, reason="an access list is needed")
def test_an_access_list_lets_others_change_a_library(place: Path) -> None:
    """The mode shows it as a right of root's group."""
    made = place / "libnccl.so.2"
    made.touch()
    assert judged(str(made)) == (str(made), 0)
    # user::rw- user:1:rw- group::r-- mask::rw- other::r--, as in linux/posix_acl_xattr.h.
    entries = [(1, 6, -1), (2, 6, 1), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    packed = b"".join(struct.pack("<HHi", *each) for each in entries)
    os.setxattr(made, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    assert judged(str(made)) == (str(made), NOBODY)


def test_what_is_no_file_is_not_opened(place: Path) -> None:
    """What waits at a pipe would go on, and a device would begin its work."""
    pipe = place / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'echo 1 >"$0"', pipe]) as waiting:
        with pytest.raises(OSError, match="is not a regular file"):
            opened(str(pipe))
        time.sleep(0.5)
        assert waiting.poll() is None
        waiting.kill()
