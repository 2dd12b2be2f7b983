"""Running pyinfra: whatever the moment of Ctrl-C, one line; it never outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from paramiko import ECDSAKey

from gpu_node.deploy.engine.pyinfra_process import Ended
from gpu_node.history.store import identity, opened
from gpu_node.onboarding.inventory_files import Site
from gpu_node.onboarding.run_pyinfra import pyinfra
from tests.node_scripts import until

REPOSITORY = Path(__file__).parents[2]
LINE = "ours: interrupted"
PARENT = f"""
from gevent import monkey
monkey.patch_all()
import signal, sys
from pathlib import Path
from gpu_node.inventories.interrupt import Interrupted
from gpu_node.onboarding.run_pyinfra import pyinfra
from gpu_node.onboarding.inventory_files import site_of
from gpu_node.onboarding.errors import Stopped
# As on a terminal, whatever the tests were started to ignore, as below nohup.
for each in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(each, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    given = site_of("site.yml")
    print("begun", flush=True)
    pyinfra(given, Path("work.py"))
except (Interrupted, KeyboardInterrupt):
    sys.exit("{LINE}")
except Stopped as error:
    sys.exit(f"{{error}}: {{error.nodes}}")
"""
CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: key, known_hosts: known_hosts, port: 1}}
groups: {a100: {}}
hosts:
  a100-01: {address: 127.0.0.1, group: a100}
"""
WORK = """
import os
from pathlib import Path
from pyinfra import host
from pyinfra.operations import server
from gpu_node.deploy.engine.interruption import watch
watch(host.state)
Path("at work").write_text(str(os.getpid()))
server.shell(name="Work", commands=["sleep 30"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An inventory of this machine alone, and a deploy that takes its time."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    (tmp_path / "site.yml").touch()
    (tmp_path / "work.py").write_text(WORK)
    return tmp_path


@contextmanager
def started(folder: Path, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """Give a process, in a group of its own as on a terminal, that is about to run pyinfra."""
    with subprocess.Popen(
        ["sh", "-c", f'{before} exec "$@"', "sh", sys.executable, "-c", PARENT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "PYINFRA_PROGRESS": "off"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def later(value: float) -> ParameterSet:
    """Move a case to the lane `slow`: each one starts pyinfra."""
    return pytest.param(value, marks=pytest.mark.slow)


def one_line(process: subprocess.Popen[str]) -> bool:
    """Whether a run that was stopped says so in one line, after pyinfra's own stages."""
    out, _ = process.communicate(timeout=20)
    *others, last = out.splitlines()
    unexpected = [each for each in others if each.strip() and not each.startswith(("-->", "    "))]
    assert (process.returncode, unexpected, last) == (1, [], LINE), out
    return True


@pytest.mark.parametrize("before", ["", "trap '' INT;"])
@pytest.mark.parametrize("seconds", [0.2, *map(later, [0, 0.01, 0.03, 0.1, 0.4, 0.8])])
def test_ctrl_c_before_pyinfra_is_there(folder: Path, seconds: float, before: str) -> None:
    """A terminal signals all processes; a shell without job control has them not heed it."""
    with started(folder, before) as process:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        assert one_line(process)


@pytest.mark.parametrize("number", [signal.SIGINT, *map(later, [signal.SIGTERM, signal.SIGHUP])])
@pytest.mark.parametrize("is_for_all", [True, False])
def test_pyinfra_at_work(folder: Path, number: int, is_for_all: bool) -> None:
    with started(folder) as process:
        assert until(lambda: (folder / "at work").exists())
        (os.killpg if is_for_all else os.kill)(process.pid, number)
        assert one_line(process)


def test_the_second_time_does_not_wait(folder: Path) -> None:
    """Importing may hang as well, as on a file system that does not answer."""
    (folder / "pyinfra_cli.py").write_text("import time; time.sleep(60)")
    with started(folder) as process:
        for _ in range(2):
            time.sleep(0.5)
            os.kill(process.pid, signal.SIGINT)
        assert one_line(process)


@pytest.mark.skipif(sys.platform != "linux", reason="only there does a child hear of it")
def test_it_ends_with_who_started_it(folder: Path) -> None:
    """No other process would wait for it, or report its result."""
    with started(folder) as process:
        assert until(lambda: (folder / "at work").exists())
        child = int((folder / "at work").read_text())
        process.kill()
        assert until(lambda: not Path(f"/proc/{child}/cmdline").exists() or is_dead(child))


def is_dead(pid: int) -> bool:
    """Whether a process has ended, though its parent has not waited for it."""
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_nodes_that_fail_are_named(folder: Path) -> None:
    """They are known by their names, whatever pyinfra says of them."""
    (folder / "site.py").write_text(
        'nodes = ["@local", ("a100-01", {"ssh_hostname": "127.0.0.1", "ssh_port": 1})]\n'
    )
    (folder / "work.py").write_text("")
    with started(folder) as process:
        out, _ = process.communicate(timeout=30)
    assert "pyinfra ended with 1; its output above gives the reason: ['a100-01']" in out


def test_a_cluster_file_alone(folder: Path) -> None:
    """pyinfra is given a temporary inventory for it, which is gone afterwards."""
    (folder / "site.py").unlink()
    (folder / "site.yml").write_text(CLUSTER)
    ECDSAKey.generate().write_private_key_file(str(folder / "key"))
    (folder / "known_hosts").touch()
    (folder / "work.py").write_text("")
    (folder / "tmp").mkdir()
    with started(folder, f"TMPDIR='{folder}/tmp'; export TMPDIR;") as process:
        out, _ = process.communicate(timeout=30)
    assert "['a100-01']" in out
    assert list((folder / "tmp").iterdir()) == []


def test_its_deploys_are_in_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the nodes that keep what was before: a restore takes that back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ended = Ended(0, recorded=("a100-01",), run="20261122T204829Z-0a1b2c")
    monkeypatch.setattr("gpu_node.onboarding.run_pyinfra.run_pyinfra", lambda *_: ended)
    pyinfra(Site(tmp_path / "site.py", tmp_path / "site.yml"))
    with opened() as store:
        (event,) = store.events(identity(str(tmp_path / "site.py")))
    assert (event.node, event.kind, event.name) == ("a100-01", "deploy", ended.run)
