"""A run that is killed before it confirms: the node undoes its change, whatever ends or begins.

logind ends all processes of a session that is over, root's as well, and a reboot ends the rest. The
tests are in the order of the story.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from gpu_node.lab import roster
from gpu_node.lab.kernel import saved
from gpu_node.lab.kernel.machine import Machine
from tests.e2e.on_lab import BIN, DEPLOY
from tests.kernel import products
from tests.kernel.products import deploy

STATE = saved.BOOTED
FILE = "/etc/security/limits.d/99-gpu-node.conf"
PENDING = "/var/lib/gpu-node/pending"
UNIT = "/etc/systemd/system/gpu-node-undo.service"
WANTED = "23456"
# By default, and with an empty list, logind spares root.
LOGIND = """
mkdir -p /etc/systemd/logind.conf.d
cd /etc/systemd/logind.conf.d
printf '[Login]\\nKillUserProcesses=yes\\nKillExcludeUsers=nobody\\n' >kill.conf
systemctl unmask dbus.socket dbus.service systemd-logind.service
systemctl start dbus.socket systemd-logind.service"""
# A new session takes its time once the file is there: the run is killed before it has confirmed.
# The tests' own login does not wait.
SLOW = f"""
cat >/root/.bashrc.new <<'END'
! grep -qs {WANTED} {FILE} || [ "$SSH_CONNECTION" = "$(cat /run/ours)" ] || sleep 15
END
cat /root/.bashrc >>/root/.bashrc.new
mv /root/.bashrc.new /root/.bashrc"""
# Longer than a node waits for a confirmation.
SECONDS = 240


def in_time(has_happened: Callable[[], object]) -> bool:
    """Whether something happens within the time of a node's undo."""
    end = time.monotonic() + SECONDS
    while not has_happened() and time.monotonic() < end:
        time.sleep(2)
    return bool(has_happened())


def is_wanted(machine: Machine) -> bool:
    """Whether the file holds what the inventory wants."""
    return machine.run(f"grep -qs {WANTED} {FILE}").returncode == 0


def killed(machine: Machine, inventory: str) -> None:
    """Replace the file by a run that is killed just after that."""
    command = [str(BIN / "pyinfra"), "-y", inventory, DEPLOY, "--data", "areas=limits"]
    with subprocess.Popen(
        command,
        cwd=roster.REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        try:
            script = f"until grep -qs {WANTED} {FILE}; do sleep 0.2; done"
            machine.read(script, seconds=products.SECONDS)
        finally:
            run.kill()


def log_in(machine: Machine) -> None:
    """Have one login for all scripts of the tests, of which logind and the slow shell know."""
    machine._share()
    assert in_time((machine._sockets / "ssh").exists)
    machine.read('echo "$SSH_CONNECTION" >/run/ours')


@pytest.fixture(scope="module")
def before(machine: Machine) -> str:
    """The file before any run; logind ends the processes of a closed session."""
    machine.read(LOGIND)
    machine.read(SLOW)
    log_in(machine)
    return machine.read(f"cksum {FILE} 2>&1 || :")


@pytest.mark.kernel
def test_a_session_ends_with_all_it_began(machine: Machine, before: str) -> None:
    """The control for the next test."""
    apart = [*machine._ssh("-S", "none"), "setsid sleep 4242 >/dev/null 2>&1 </dev/null & sleep 1"]
    subprocess.run(apart, stdin=subprocess.DEVNULL, check=True, timeout=120)
    assert in_time(lambda: machine.run("pgrep -f '^sleep 4242'").returncode == 1)


@pytest.mark.kernel
def test_the_time_is_kept(machine: Machine, inventory: str, before: str) -> None:
    """The session of the run is over, and its processes with it."""
    killed(machine, inventory)
    assert is_wanted(machine)
    units = machine.read("systemctl list-units --no-legend 'gpu-node-undo-*'")
    assert units.count(".service") == 1
    assert in_time(lambda: not is_wanted(machine))
    assert machine.read(f"cksum {FILE} 2>&1 || :") == before
    assert in_time(lambda: machine.run(f"[ ! -e {PENDING} ]").returncode == 0)
    assert machine.read(f"ls {UNIT} 2>/dev/null || echo gone") == "gone"
    assert machine.read("systemctl list-units --failed --no-legend 'gpu-node*'") == ""


@pytest.mark.kernel_slow
def test_a_reboot(machine: Machine, inventory: str, before: str) -> None:
    """The power fails before the time is over: it is undone by the next boot."""
    killed(machine, inventory)
    assert is_wanted(machine)
    boot = machine.boot_id()
    machine.run("(sleep 1; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")
    machine.wait(boot)
    assert in_time(lambda: machine.run(f"[ ! -e {PENDING} ]").returncode == 0)
    assert machine.read(f"cksum {FILE} 2>&1 || :") == before
    assert machine.read(f"ls {UNIT} 2>/dev/null || echo gone") == "gone"


@pytest.mark.kernel_slow
def test_the_next_run(machine: Machine, inventory: str, before: str) -> None:
    """It settles what waits, before it judges: a login opens, and the file stays."""
    log_in(machine)
    killed(machine, inventory)
    # Only the record is left, as without systemd.
    machine.read(f"systemctl stop 'gpu-node-undo-*'; rm {UNIT}; ls {PENDING}/*/undo")
    machine.read("sed -i 1d /root/.bashrc")
    done = deploy(inventory, "--data", "areas=limits")
    assert done.code == 0, done.err
    assert f"{FILE}: an earlier run was cut off: a new session confirmed its change" in done.err
    assert is_wanted(machine)
    assert machine.read(f"ls {PENDING} 2>/dev/null || echo gone") == "gone"
