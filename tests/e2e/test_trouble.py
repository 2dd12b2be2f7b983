"""Runs that go wrong: the error is clear, nothing is half done, and the next run finishes."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu_node.facts.ask.session import GONE_SECONDS
from gpu_node.lab import faults, nodes, roster
from tests.e2e.conftest import CONVERGED, WriteInventory
from tests.e2e.on_lab import BIN, DEPLOY, INVENTORY, MANAGED, Converge, converge, drift, on

pytestmark = pytest.mark.lab

NODE = "a100-01"
LIMITS_FILE = "/etc/security/limits.d/99-gpu-node.conf"
NO_NEW_CMAKE = "rm -rf /opt/cmake-3.25.2; cd /usr/local/bin && rm -f cmake ctest cpack"

HANGING_TAR = (
    "printf '#!/bin/sh\nexec sleep 60\n' >/usr/local/sbin/tar; chmod 755 /usr/local/sbin/tar"
)


@pytest.fixture(scope="module")
def both(converged_once: None) -> None:
    """Both nodes are converged, for each logs in to the other."""
    nodes.put_back(MANAGED, CONVERGED)


@pytest.fixture(autouse=True)
def healthy(both: None) -> None:
    """The node is converged before each test."""
    nodes.put_back([NODE], CONVERGED)


def _converge(inventory: str = INVENTORY, *options: str) -> Converge:
    return converge(inventory, "--limit", NODE, *options)


def _old_cmake_works() -> bool:
    return on(NODE, "cmake --version").startswith("cmake version 3.23.3")


def _next_run_finishes() -> bool:
    done = _converge()
    assert done.code == 0, done.err
    return on(NODE, "/usr/local/bin/cmake --version").startswith("cmake version 3.25.2")


# Nothing listens there: the connection is refused, as by a repository whose server is down.
CLOSED = f"http://{roster.MIRROR_ADDRESS}:9/"
_CLOSE = f"sed -i 's|http://{roster.MIRROR_ADDRESS}/|{CLOSED}|'"


@pytest.mark.lab_slow
def test_an_index_that_cannot_be_read() -> None:
    """It is the reason, not a missing wheel; the system's libnccl, which needs no pip, is there."""
    on(NODE, f"{_CLOSE} /etc/pip.conf; rpm -e libnccl-static")
    on(NODE, "rm /root/miniconda3/envs/dis/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2")
    done = _converge()
    assert (done.code, done.failed) == (1, ["every host"])
    assert f"envs/dis: {CLOSED}wheels/ cannot be read: " in done.err
    assert "envs/dis: failed; the rest of nccl and the other areas go on" in done.err
    assert on(NODE, "rpm -q libnccl-static").startswith("libnccl-static-2.18.1-1")


@pytest.mark.lab_slow
def test_a_repository_that_cannot_be_read() -> None:
    """It is the reason, not a missing package, also where the package manager skips it."""
    on(NODE, f"{_CLOSE} /etc/yum.repos.d/*.repo; rm -rf /var/cache/dnf/*")
    on(NODE, "sed -i '/^baseurl/a skip_if_unavailable=1' /etc/yum.repos.d/CentOS-Base.repo")
    faults.inject(faults.find("driver-next-boot").model_copy(update={"node": NODE}))
    done = _converge()
    assert (done.code, done.failed) == (1, ["every host"])
    first, _, rest = done.err.partition(
        f"driver: {CLOSED}rpm-base/repodata/repomd.xml cannot be read"
    )
    assert "are not available" not in first and "are not available" in rest, done.err


@pytest.mark.lab_slow
def test_a_node_killed_while_it_unpacks() -> None:
    """Its disk holds a half release under another name; the next run clears it and finishes."""
    on(NODE, NO_NEW_CMAKE)
    slow = '#!/bin/sh\n/usr/bin/tar "$@"\nsleep 60\n'
    on(NODE, f"printf '%s' '{slow}' >/usr/local/sbin/tar; chmod 755 /usr/local/sbin/tar")
    results: list[Converge] = []
    run = threading.Thread(target=lambda: results.append(_converge()))
    run.start()
    work = "/opt/.cmake-3.25.2.gpu-node/tree"
    _wait_for(f"test -x {work}/cmake-3.25.2-linux-x86_64/bin/cmake")
    nodes.stop(NODE)
    run.join(timeout=2 * GONE_SECONDS)
    assert results and results[0].code == 1
    about = [line for line in results[0].err.splitlines() if f"[{NODE}] " in line]
    assert "its connection broke in an operation of toolchain; the node is out" in about[-1], about
    nodes.start(NODE)
    on(NODE, f"rm /usr/local/sbin/tar; test -d {work}")
    assert _old_cmake_works()
    assert _next_run_finishes()
    assert on(NODE, "ls -A /opt") == "cmake-3.25.2\n"


def _wait_for(script: str) -> None:
    give_up = time.monotonic() + 60
    while nodes.execute(NODE, script).returncode:
        assert time.monotonic() < give_up, script
        time.sleep(0.1)


def test_the_controller_is_killed_in_the_middle() -> None:
    """A run that dies half-way is finished by the next run, and no user is locked out."""
    on(NODE, f"{NO_NEW_CMAKE}; rm {LIMITS_FILE}; sed -i /size=8G/d /etc/fstab; chmod 755 /dev/shm")
    on(NODE, HANGING_TAR)
    command = [str(BIN / "pyinfra"), "-y", INVENTORY, DEPLOY, "--limit", NODE]
    run = subprocess.Popen(command, cwd=roster.REPOSITORY, stderr=subprocess.DEVNULL)
    _wait_for("test -d /opt/.cmake-3.25.2.gpu-node/tree")
    run.kill()
    run.wait()
    on(NODE, "pkill -x sleep; rm /usr/local/sbin/tar")  # the next run waits for its end
    assert _next_run_finishes()
    assert drift(INVENTORY, "--limit", NODE).code == 0


def test_ctrl_c_is_not_success() -> None:
    """It ends with 1 and a line, at once; the next run finishes."""
    on(NODE, NO_NEW_CMAKE)
    on(NODE, HANGING_TAR)
    command = [str(BIN / "pyinfra"), "-y", INVENTORY, DEPLOY, "--limit", NODE]
    run = subprocess.Popen(command, cwd=roster.REPOSITORY, stderr=subprocess.PIPE, text=True)
    _wait_for("test -d /opt/.cmake-3.25.2.gpu-node/tree")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=10)
    assert run.returncode == 1
    assert "gpu-node: interrupted, not proved" in err and "Traceback" not in err
    on(NODE, "pkill -x sleep; rm /usr/local/sbin/tar")  # the next run waits for its end
    assert _next_run_finishes()


@pytest.mark.lab_slow
def test_two_runs_at_once() -> None:
    """Neither damages the other's work: each is proved, or reports that it must be run again."""
    on(NODE, f"{NO_NEW_CMAKE}; rm {LIMITS_FILE}; sed -i /size=8G/d /etc/fstab; chmod 755 /dev/shm")
    with ThreadPoolExecutor() as beside:
        both = list(beside.map(lambda _: _converge(), range(2)))
    assert any(done.code == 0 for done in both), both
    assert all(done.code == 0 or "run again" in done.err for done in both), both
    assert _next_run_finishes()
    assert drift(INVENTORY, "--limit", NODE).code == 0


def test_a_file_that_cannot_be_read_is_left_alone() -> None:
    """A directory where our file goes: one line, no traceback, and the directory stays."""
    on(NODE, f"rm {LIMITS_FILE}; mkdir {LIMITS_FILE}")
    done = _converge()
    assert done.code == 1
    assert f"{LIMITS_FILE}: cannot be read, so it stays as it is: " in done.err
    assert "Traceback" not in done.err
    assert on(NODE, f"ls -A {LIMITS_FILE}") == ""


@pytest.mark.lab_slow
def test_a_limit_that_sshd_may_not_grant_is_left(inventory: WriteInventory) -> None:
    """A limit above what sshd of a container may grant: the old file stays, with the reason."""
    before = on(NODE, f"cksum {LIMITS_FILE}")
    done = _converge(inventory({NODE: {"limits_nofile": 1000000}}))
    assert done.code == 1
    assert "limits.nofile" in done.err
    assert on(NODE, f"cksum {LIMITS_FILE}") == before
    assert drift(INVENTORY, "--limit", NODE).code == 0


def _refuse_logins_with(condition: str) -> str:
    """A script that makes PAM refuse every new session while `condition` holds on the node."""
    return f"""
printf '#!/bin/sh\\n! {{ {condition}; }}\\n' >/usr/local/sbin/refuse
chmod 755 /usr/local/sbin/refuse
sed -i '1i account required pam_exec.so quiet /usr/local/sbin/refuse' /etc/pam.d/sshd
"""


def test_limits_that_lock_out_are_taken_back() -> None:
    """A new file after which no session opens is removed again over the old session."""
    on(NODE, f"rm {LIMITS_FILE}")
    on(NODE, _refuse_logins_with(f"test -e {LIMITS_FILE}"))
    done = _converge()
    assert (done.code, done.failed) == (1, ["every host"])
    assert "no new session" in done.err and "the earlier file was restored" in done.err
    assert on(NODE, f"ls -A {LIMITS_FILE.rpartition('/')[0]}") == "20-nproc.conf\n"
    assert drift(INVENTORY, "--limit", NODE).code == 2  # it can be logged in to


@pytest.mark.lab_slow
def test_the_controller_pushes_to_nodes_without_internet(
    inventory: WriteInventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fetch: controller downloads once and copies; the node itself downloads nothing."""
    on(NODE, NO_NEW_CMAKE)
    for tool in ("curl", "wget"):
        on(NODE, f"printf '#!/bin/sh\\nexit 7\\n' >/usr/local/sbin/{tool}")
        on(NODE, f"chmod 755 /usr/local/sbin/{tool}")
    assert "cannot be fetched" in _converge().err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = _converge(inventory({NODE: {"toolchain_cmake_fetch": "controller"}}))
    assert done.code == 0, done.err
    assert on(NODE, "/usr/local/bin/cmake --version").startswith("cmake version 3.25.2")
    assert on(NODE, "ls -A /var/tmp") == ""
    assert len(list((tmp_path / "cache" / "gpu-node").iterdir())) == 1
