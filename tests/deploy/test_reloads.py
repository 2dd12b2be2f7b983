"""What reloads systemd: refused, or left out, while a running container has GPUs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.scripts import script
from tests.deploy.containing import GPU, ID, OWN_DEV, Node
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import Ended

REPOSITORY = Path(__file__).parent.parent.parent
DRIVER = {"packages": "nvidia-dkms-535", "version": "535.154.05", "hold": "no", "run": "RUN"}
NCCL = {"names": "libnccl2", "version": "2.18.1-1+cuda12.1", "url": "", "key": "", "run": "RUN"}
RSYNC = {"program": "rsync", "packages": "rsync"}
# The steps that are refused, with what they install.
REFUSED = {
    "driver_install": {**DRIVER, "allow": "yes"},
    "driver_packages": {"kernels": "", "dkms": "yes"},
    "program": RSYNC,
}
# Those that are refused only where dpkg has not configured a package yet.
HALF = {
    "driver_packages": {"kernels": "9.9.9-test", "dkms": "no"},
    "packages_deb": {**NCCL, "allow": "yes", "override": "no", "held": ""},
}
_CALL = re.compile(r"systemctl((?: +-[-a-z]+)*) +([a-z-]+)")
_RELOADS = {
    *("daemon-reload", "daemon-reexec", "enable", "disable", "reenable", "preset", "preset-all"),
    *("mask", "unmask", "link", "revert", "add-wants", "add-requires", "set-default", "edit"),
}


def run(
    machine: Machine,
    shell: str,
    name: str,
    given: dict[str, str],
    allow: str = "no",
    manager: str = "apt-get",
) -> Ended:
    """Run a step beside a container with GPUs, where neither rsync nor dkms is there."""
    node = Node()
    node.begin("job", GPU, f"0::/system.slice/docker-{ID}.scope")
    there = [path for path in map(shutil.which, ("rsync", "dkms")) if path]
    node.lines += [f"mount --bind /dev/null {path}" for path in there]
    node.lines.append("[ ! -d /sys/module ] || mount -t tmpfs none /sys/module")
    return node.run(script(name, manager=manager, allow_reload=allow, **given), shell)


@pytest.mark.parametrize("manager", ["apt-get", "yum"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_step_is_refused(machine: Machine, shell: str, name: str, manager: str) -> None:
    """Nothing was installed, and the container is named; it is installed where that is allowed."""
    machine.write("offers", "nvidia-dkms-535 535.154.05-1")
    machine.write("plan", "Operation aborted.")
    done = run(machine, shell, name, REFUSED[name], manager=manager)
    assert done.code == 1 and machine.installs() == []
    for words in ("reload systemd", f"container {ID[:12]} (pid ", "allow_disruption=true"):
        assert words in done.err
    again = run(machine, shell, name, REFUSED[name], "yes", manager)
    assert "reload systemd" not in again.err and machine.installs() != []


@pytest.mark.parametrize("name", HALF)
def test_what_is_half_configured(machine: Machine, shell: str, name: str) -> None:
    """apt would run the scripts of these packages, whichever they are."""
    done = run(machine, shell, name, HALF[name])
    assert "reload systemd" not in done.err
    (machine.folder / "bin" / "dpkg").write_text("#!/bin/sh\necho nvidia-persistenced\n")
    before = machine.installs()
    done = run(machine, shell, name, HALF[name])
    assert done.code == 1 and "the scripts of packages that are half configured reload" in done.err
    assert machine.installs() == before


def test_no_container_has_gpus(machine: Machine, shell: str) -> None:
    node = Node()
    node.begin("web", OWN_DEV, f"0::/system.slice/docker-{ID}.scope")
    node.lines.append(f"mount --bind /dev/null {shutil.which('rsync')}")
    done = node.run(script("program", manager="apt-get", allow_reload="no", **RSYNC), shell)
    assert (done.code, done.err) == (0, "")


def test_each_script_that_installs_packages_asks() -> None:
    """All but that of packages without a unit, such as NCCL's and the plugins of yum and dnf."""
    reloads = _needing("containers") - {"module", "nouveau", "reboot"}
    assert _needing("package_locks") - reloads == {"packages_rpm"}
    asked = {path.stem for path in scripts.FILES.values() if _asks(path.read_text())}
    # Each step with apt needs transaction_deb.sh, which asks about half configured packages.
    assert asked - {"containers", "transaction_deb", "look"} <= reloads
    assert reloads - asked <= _needing("transaction_deb")


def _needing(first: str) -> set[str]:
    return {name for name in scripts.FILES if first in scripts.needed(name)}


def _asks(text: str) -> bool:
    return "takes_gpus" in text or "refuse_reload" in text


@pytest.mark.parametrize("room", ["deploy", "facts", "onboarding", "verify", "inventories"])
def test_systemctl_reloads_nowhere_else(room: str) -> None:
    """Each command that implies a reload has --no-reload, and the reload itself asks before."""
    found = []
    for path in [*(REPOSITORY / room).rglob("*.sh"), *(REPOSITORY / room).rglob("*.py")]:
        for options, verb in _CALL.findall(path.read_text(encoding="utf-8")):
            if verb in _RELOADS and "--no-reload" not in options:
                found.append((path.name, verb))
    assert found == ([("persistence.sh", "daemon-reload")] if room == "deploy" else [])
