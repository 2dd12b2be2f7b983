"""pip runs as the account that may change an environment, and root runs none that others may."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.deploy.engine.scripts import script
from gpu_node.facts.probe.records import words_of
from gpu_node.lab.machine import as_root
from gpu_node.lab.wheels import wheel
from tests import environments
from tests.deploy.test_wheels import is_whole, pip_as_it_is
from tests.environments import CU11, CU12, Environment
from tests.shells import SHELLS

__all__ = ["pip_as_it_is"]
# A line of a .pth file, which site.py runs.
WHO = (
    "import os; open('{place}/ran/as', 'a').write('%d %s\\n' % (os.geteuid(), "
    "os.environ.get('PIP_INDEX_URL', '-')))\n"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a user's environment, whose Python writes at its start as whom it runs."""
    place = Path(mkdtemp(prefix="gpu-node-by-owner-"))
    try:
        # Another account may not reach the Python of these tests, below a home.
        python = "/usr/bin/python3"
        made = environments.environment(place / "env", "torch", CU12, CU11, python=python)
        (made.packages / "pip").unlink()
        pip = str(metadata.distribution("pip").locate_file("pip"))
        subprocess.run(["cp", "-a", pip, made.packages], check=True)
        shutil.copytree(environments.index(), place / "index")
        wheel(place / "index", "six", "1.16.0", {"six/__init__.py": b"1"}, [])
        config = f"[global]\nno-index = true\nfind-links = {place}/index\n"
        (made.prefix / "pip.conf").write_text(config)
        (made.packages / "who.pth").write_text(WHO.format(place=place))
        (place / "ran").mkdir()
        change(
            f"chmod -R go-w,go+rX {place}; chown -hR root:root {place}; chmod 777 {place}/ran; "
            f"chown -hR daemon:daemon {place}/env"
        )
        as_root([*AS_DAEMON, str(made.python), "-I", "-c", ""])
        (place / "ran" / "as").unlink()
        yield place
    finally:
        as_root(["rm", "-rf", place])


AS_DAEMON = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]


def change(commands: str) -> None:
    """Prepare the place as root."""
    as_root(["bash", "-c", f"set -e; {commands}"])


def done(
    name: str, place: Path, shell: str = "dash", env: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script as root."""
    given = {"prefix": str(place / "env"), "allow": "yes", **variables}
    words = [*SHELLS[shell], "-c", script(name, **given).get_raw_value()]
    return as_root(["env", *env.split(), *words], check=False)


def ran(place: Path) -> set[str]:
    """As whom, and with what, its Python ran."""
    path = place / "ran" / "as"
    return set(path.read_text().splitlines()) if path.exists() else set()


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_wheels_of_a_users_environment(place: Path, shell: str) -> None:
    """They are installed by that user, without root's passwords; each file is the user's."""
    env = "PIP_INDEX_URL=https://me:secret@example.org/simple"
    more = {"remove": "nvidia-nccl-cu11", "backups": str(place / "backups" / "RUN")}
    ended = done("wheels", place, shell, env, keep=CU12, **more)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", ""), ended.stderr
    assert ran(place) == {"1 -"}
    made = Environment(place / "env")
    assert as_root(["find", str(made.prefix), "!", "-user", "daemon"]).stdout == ""
    assert is_whole(made)
    # Who takes them back: root runs no pip of that environment.
    noted = as_root(["cat", f"{place}/backups/RUN/also"]).stdout.splitlines()
    assert noted and all(
        words_of(line)[1:4] == ("wheels", "daemon", str(made.prefix)) for line in noted
    )


def test_packages_of_an_environment_without_pip(place: Path) -> None:
    """The note has that its base's pip changed it: restore names no pip that is not there."""
    change(f"rm -r {place}/env/lib/python*/site-packages/pip")
    more = {"pins": "six==1.16.0", "backups": str(place / "backups" / "RUN")}
    ended = done("packages_pip", place, "dash", "PIP_NO_INDEX=1", **more)
    assert (ended.returncode, ended.stderr) == (0, "")
    noted = as_root(["cat", f"{place}/backups/RUN/also"]).stdout.splitlines()
    assert [words_of(line)[:2] for line in noted] == [("+", "base-wheels")]


def test_packages_of_a_users_environment(place: Path) -> None:
    """The same; an index without a password is handed on."""
    env = "PIP_INDEX_URL=https://example.org/simple"
    ended = done("packages_pip", place, "dash", env, pins="six==1.16.0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ran(place) == {"1 https://example.org/simple"}
    assert Environment(place / "env").distributions["six"] == "1.16.0"


def test_a_wheel_is_handed_over(place: Path) -> None:
    """What root alone can read is the user's to install, and is gone afterwards."""
    (kept,) = (place / "index").glob("nvidia_nccl_cu12-2.18.1-*.whl")
    pushed = Path(mkdtemp(prefix="gpu-node-pushed-")) / "nccl.whl"
    shutil.copy(kept, pushed)
    before = set(Path("/var/tmp").glob("gpu-node-wheels.*"))
    change(f"chown -R root:root {pushed.parent}; rm -r {place}/index")
    ended = done("wheels", place, keep=CU12, remove="nvidia-nccl-cu11", pushed=str(pushed))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert {each.split()[0] for each in ran(place)} == {"1"}
    assert is_whole(Environment(place / "env"))
    assert not pushed.exists() and set(Path("/var/tmp").glob("gpu-node-wheels.*")) <= before
    as_root(["rm", "-rf", pushed.parent])


@pytest.mark.parametrize("name", ["wheels", "packages_pip"])
def test_what_others_may_change_is_left(place: Path, name: str) -> None:
    """Nothing of it runs, and the command that cures it is printed."""
    change(f"chmod 777 {place}")
    ended = done(name, place, keep=CU12, remove="", pins="six==1.16.0")
    assert ended.returncode == 1
    assert f"everyone may write {place}; chmod +t {place}; nothing was changed" in ended.stderr
    assert ran(place) == set()


@pytest.mark.parametrize("name", ["wheels", pytest.param("packages_pip", marks=pytest.mark.slow)])
def test_root_removes_nothing_that_pythonpath_names(place: Path, name: str) -> None:
    """A user's folder there is no part of the environment."""
    theirs = place / "theirs"
    change(
        f"rm {place}/env/lib/*/site-packages/who.pth; chown -hR root:root {place}/env; "
        f"mkdir {theirs}; cd {theirs}; "
        "mkdir nvidia_nccl_cu12-2.18.1.dist-info six-1.16.0.dist-info; touch -d tomorrow *; "
        f"chown -hR daemon:daemon {theirs}; echo six==1.16.0 >{place}/env/.gpu-node-pip"
    )
    given = {"keep": CU12, "remove": "nvidia-nccl-cu11", "pins": "six==1.16.0"}
    ended = done(name, place, "dash", f"PYTHONPATH={theirs}", **given)
    assert ended.returncode == 0, ended.stderr
    assert len(list(theirs.iterdir())) == 2
