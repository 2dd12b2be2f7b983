"""What is asked about settings, modules and services, really run over files of a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.host import settings
from gpu_node.facts.host.settings import Setting
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.request import ProbeRequest
from tests.node_scripts import run_apart

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it mounts")
REQUEST = ProbeRequest(
    sysctl=("vm.swappiness", "vm.nowhere", "net.ipv4.conf.all.rp_filter"),
    modules=("nvidia_peermem", "tun", "gone"),
    services=("nvidia-dcgm", "nowhere"),
)
ASKED = {each.name: each for each in settings.sections(REQUEST)}
FILES = {
    "/etc/sysctl.d/10-masked.conf": "",
    "/usr/lib/sysctl.d/10-masked.conf": "vm.swappiness = 1\n",
    "/run/sysctl.d/20-run.conf": "net/ipv4/conf/all/rp_filter=2\n# vm.swappiness = 2\n",
    "/usr/lib/sysctl.d/30-lib.conf": "  -vm.swappiness   =  3 \n; vm.swappiness = 4\n",
    "/usr/lib/sysctl.d/40-other.txt": "vm.swappiness = 5\n",
    "/etc/sysctl.d/zz-gpu-node.conf": "# Ours.\nvm.swappiness = 10\nvm.swappiness2 = 6\n",
    "/etc/sysctl.conf": "vm.swappiness=60\n",
    "/etc/modules-load.d/a.conf": "# tun\n nvidia-peermem \n",
    "/lib/modules/6.1-test/modules.builtin": "kernel/net/tun.ko\n",
    "/lib/modules/6.1-test/modules.dep": "updates/nvidia-peermem.ko.xz: updates/nvidia.ko.xz\n",
}


def run(section: Section, shell: str, folder: Path, *more: str) -> str:
    """What a section prints on a machine of these files."""
    lines = [
        *(f"mkdir -p {each}; mount -t tmpfs tmpfs {each}" for each in MOUNTS),
        f"mount --bind {folder}/sys/vm /proc/sys/vm",
        f"cp {folder}/sysctl.conf /run/gone; mount --bind /run/gone /etc/sysctl.conf",
    ]
    lines += [f"mkdir -p {path.rpartition('/')[0]}" for path in FILES]
    lines += [f"printf '%s' '{text}' >{path}" for path, text in FILES.items()]
    done = run_apart(StringCommand(section.command), shell, "\n".join([*lines, *more]))
    assert (done.code, done.err) == (0, "")
    return done.out


MOUNTS = (
    *("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d", "/etc/modules-load.d"),
    *("/lib/modules", "/sys/module", "/run/systemd"),
)


@pytest.fixture
def folder(tmp_path: Path, programs: Path) -> Path:
    """A kernel's files, and programs that stand in for those of a node."""
    (tmp_path / "sys" / "vm").mkdir(parents=True)
    (tmp_path / "sys" / "vm" / "swappiness").write_text("60\n")
    (tmp_path / "sysctl.conf").touch()
    programs.mkdir()
    for name, text in {"uname": "echo 6.1-test", "systemctl": SYSTEMCTL}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return tmp_path


SYSTEMCTL = """[ "$*" = "show -p LoadState -p UnitFileState -p ActiveState -p Type -p Result \
nvidia-dcgm.service nowhere.service" ] || exit 1
printf '%s\\n' Type=simple Result=success LoadState=loaded ActiveState=active \
UnitFileState=disabled '' LoadState=not-found ActiveState=inactive"""


def rows(name: str, shell: str, folder: Path, *more: str) -> dict[str, Setting]:
    """What a section gives."""
    _, read = settings.PARSERS[name]
    return {each.name: each for each in read(run(ASKED[name], shell, folder, *more))}


def test_settings(folder: Path, shell: str) -> None:
    """As the kernel has them, and as the last file sets them: one masks others of its name."""
    found = rows("host.sysctl", shell, folder)
    swap = Setting(name="vm.swappiness", can=True, now="60", boot="60", file="/etc/sysctl.conf")
    assert found["vm.swappiness"] == swap
    assert found["vm.nowhere"] == Setting(name="vm.nowhere")
    filter_ = found["net.ipv4.conf.all.rp_filter"]
    assert (filter_.can, filter_.boot, filter_.file) == (True, "2", "/run/sysctl.d/20-run.conf")
    less = [": >/etc/sysctl.conf"]
    for file, value in {
        "/etc/sysctl.d/zz-gpu-node.conf": "10",
        "/usr/lib/sysctl.d/30-lib.conf": "3",
        "": None,
    }.items():
        row = rows("host.sysctl", shell, folder, *less)["vm.swappiness"]
        assert (row.boot, row.file or "") == (value, file)
        # A link to /dev/null in another folder masks the file.
        less.append(f"ln -sf /dev/null /etc/sysctl.d/{file.rpartition('/')[2]}")


def test_modules(folder: Path, shell: str) -> None:
    """Spelled as in the kernel or as in files."""
    found = rows("host.modules", shell, folder, "mkdir /sys/module/nvidia_peermem")
    on = Setting(name="", can=True, now="loaded", boot="loaded")
    builtin = "/lib/modules/6.1-test/modules.builtin"
    assert found == {
        "nvidia_peermem": on.model_copy(
            update={"name": "nvidia_peermem", "file": "/etc/modules-load.d/a.conf"}
        ),
        "tun": on.model_copy(update={"name": "tun", "file": builtin}),
        "gone": Setting(name="gone"),
    }
    assert rows("host.modules", shell, folder)["nvidia_peermem"].now is None


def test_services(folder: Path, shell: str) -> None:
    """In the order in which they were asked about; without systemd there are none."""
    assert rows("host.services", shell, folder) == {}
    assert rows("host.services", shell, folder, "mkdir /run/systemd/system") == {
        "nvidia-dcgm": Setting(name="nvidia-dcgm", can=True, now="running", boot="disabled"),
        "nowhere": Setting(name="nowhere", now="not-found", boot="not-found"),
    }


def test_a_name_that_is_no_word_is_not_asked_about() -> None:
    """The model refuses it; a Python inventory is read before it is judged."""
    words = ("-x", "a b", "$(reboot)", "", "vm.x\nvm.y", "../x", 5, None)
    request = ProbeRequest(sysctl=words, modules=words, services=words)  # type: ignore[arg-type]
    assert [*settings.sections(request)] == []
    assert [*settings.sections(ProbeRequest())] == []
