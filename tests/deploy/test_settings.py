"""settings.sh, really run: what a file of ours says, and back to what was before it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files.replace import confirm, replace, reread, restore
from gpu_node.deploy.host import operations
from gpu_node.deploy.host.operations import applied, with_entries
from gpu_node.facts.probe.file_bytes import FileContent
from gpu_node.lab.machine import as_root
from tests.deploy.accounts import AS_ROOT
from tests.node_scripts import Ended, run, run_apart, until
from tests.shells import SHELLS

pytestmark = AS_ROOT
ABSENT = FileContent(exists=False, text="", problem="")
# Keeps states in files; `broken` does not start, `short` ends at once, `slow` starts for long.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$HERE/called"
for unit; do :; done
at=$HERE/$unit
case $* in
  (*"-p UnitFileState"*) echo "UnitFileState=$(cat "$at.file" 2>/dev/null || echo disabled)" ;;
  (*"-p ActiveState"*) echo "ActiveState=$(cat "$at.active" 2>/dev/null || echo inactive)" ;;
  (*"-p Type"*) case $unit in (once*) echo Type=oneshot ;; (*) echo Type=simple ;; esac ;;
  (*" enable "*) echo "Created symlink" >&2; echo enabled >"$at.file" ;;
  (*" disable "*) echo disabled >"$at.file" ;;
  (*" stop "*) echo inactive >"$at.active" ;;
  (*" start "*)
    case $unit in
      (broken*) echo "Failed to start broken.service: Unit is bad." >&2; exit 1 ;;
      (short*) echo failed >"$at.active" ;;
      (once*) : ;;
      (slow*) echo activating >"$at.active" ;;
      (*) echo active >"$at.active" ;;
    esac ;;
  (*) exit 64 ;;
esac
"""


class Machine:
    """A folder in the place of /proc/sys, a file of ours, its record, and programs."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder, self.shell = folder, shell
        self.sys, self.bin = folder / "sys", folder / "bin"
        self.file, self.record = folder / "ours.conf", folder / "before"
        self.bin.mkdir(exist_ok=True)
        for name, value in {
            "vm/max_map_count": "65530",
            "net/ipv4/tcp_rmem": "4096\t131072\t600",
        }.items():
            (self.sys / name).parent.mkdir(parents=True, exist_ok=True)
            (self.sys / name).write_text(f"{value}\n")
        self.program("sleep", "#!/bin/sh\nexit 0\n")
        self.program("systemctl", SYSTEMCTL)

    def program(self, name: str, text: str) -> None:
        """Have a program in PATH."""
        (self.bin / name).write_text(text.replace("$HERE", str(self.folder)))
        (self.bin / name).chmod(0o755)

    def run(self, kind: str, text: str | None = None) -> Ended:
        """Have the node as our file says, whose text may be another one."""
        if text is not None:
            self.file.write_text(text)
        given = {"kind": kind, "file": str(self.file), "record": str(self.record)}
        command = script("settings", **given)
        return run_apart(
            command, self.shell, f"mount --bind {shlex.quote(str(self.sys))} /proc/sys"
        )

    def value(self, name: str) -> str:
        """The kernel's value of a setting."""
        return " ".join((self.sys / name).read_text().split())

    def state(self, unit: str) -> tuple[str, str]:
        """What systemd keeps of a service."""
        known = (self.folder / f"{unit}.service.{each}" for each in ("file", "active"))
        file, active = (path.read_text().strip() if path.exists() else "" for path in known)
        return file, active


@pytest.fixture
def machine(tmp_path: Path, programs: Path, shell: str) -> Machine:
    return Machine(tmp_path, shell)


BOTH = "# Ours.\nvm.max_map_count = 262144\nnet.ipv4.tcp_rmem = 4096 131072 6291456\n"


def test_values_and_back(machine: Machine) -> None:
    """The first value is kept over several runs; an entry that goes brings it back, alone."""
    for text in (BOTH, BOTH.replace("262144", "524288"), None):
        done = machine.run("sysctl", text)
        assert (done.code, done.out, done.err) == (0, "", "")
    assert machine.value("vm/max_map_count") == "524288"
    assert machine.value("net/ipv4/tcp_rmem") == "4096 131072 6291456"
    kept = "vm.max_map_count = 65530\nnet.ipv4.tcp_rmem = 4096 131072 600\n"
    assert machine.record.read_text() == kept
    assert machine.run("sysctl", BOTH.replace("vm.", "# vm.")).code == 0
    assert machine.value("vm/max_map_count") == "65530"
    assert machine.value("net/ipv4/tcp_rmem") == "4096 131072 6291456"
    machine.file.unlink()
    assert machine.run("sysctl").code == 0
    assert machine.value("net/ipv4/tcp_rmem") == "4096 131072 600"
    assert not machine.record.exists()


def test_what_is_so_is_not_written(machine: Machine) -> None:
    """A setting may do something when it is written."""
    machine.run("sysctl", BOTH)
    (machine.sys / "vm/max_map_count").chmod(0o444)
    before = (machine.sys / "vm/max_map_count").stat().st_mtime_ns
    assert machine.run("sysctl").code == 0
    assert (machine.sys / "vm/max_map_count").stat().st_mtime_ns == before


def test_a_value_that_the_kernel_refuses(machine: Machine) -> None:
    """It is named with the reason, and the others are set; the next call takes all back."""
    (machine.sys / "vm/nowhere").mkdir()
    done = machine.run("sysctl", f"vm.nowhere = 1\n{BOTH}")
    assert done.code == 1
    assert done.err.startswith("gpu-node: vm.nowhere: is not 1: ") and done.err.count("\n") == 1
    assert machine.value("vm/max_map_count") == "262144"
    machine.file.unlink()
    assert machine.run("sysctl").code == 0
    assert machine.value("vm/max_map_count") == "65530"


def test_a_value_that_the_kernel_changes(machine: Machine) -> None:
    """It may take less than was asked for."""
    (machine.sys / "vm/nr_hugepages").symlink_to("/dev/null")
    done = machine.run("sysctl", "vm.nr_hugepages = 5\n")
    assert done.code == 1 and "vm.nr_hugepages: is not 5: it is unknown" in done.err


def test_a_kernel(tmp_path: Path, shell: str) -> None:
    """A real one, with a network of its own: it refuses a value, and takes another."""
    file, name = tmp_path / "ours.conf", "net.ipv4.ip_default_ttl"
    given = {"kind": "sysctl", "file": str(file), "record": str(tmp_path / "before")}
    run_settings = shlex.join([*SHELLS[shell], "-c", script("settings", **given).get_raw_value()])
    lines = [
        f"echo '{name} = 99999' >{file}; {run_settings} && exit 1",
        f"echo '{name} = 77' >{file}; {run_settings} || exit 1",
        "[ $(cat /proc/sys/net/ipv4/ip_default_ttl) = 77 ] || exit 1",
        f"rm {file}; {run_settings} || exit 1",
        "[ $(cat /proc/sys/net/ipv4/ip_default_ttl) = 64 ]",
    ]
    done = as_root(["unshare", "--net", "bash", "-c", "\n".join(lines)], check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"gpu-node: {name}: is not 99999: the kernel refuses it\n"


HOSTILE = """\
../../secret = 1
vm.$(touch PLACE/ran) = 1
$(touch PLACE/ran) = 1
-n = 1
vm.max_map_count = $(touch PLACE/ran) *
vm;touch = 2
"""


@pytest.mark.parametrize("where", ["file", "record"])
def test_hostile_lines(machine: Machine, where: str) -> None:
    """Names of another form are no names, and a value is a text."""
    machine.file.write_text("")
    getattr(machine, where).write_text(HOSTILE.replace("PLACE", str(machine.folder)))
    done = machine.run("sysctl")
    assert not (machine.folder / "ran").exists()
    assert not list(machine.folder.rglob("secret"))
    assert done.err == ""
    assert machine.value("vm/max_map_count") == f"$(touch {machine.folder}/ran) *"


def test_services_and_back(machine: Machine) -> None:
    """Enabled and started without a reload of systemd; then each is as it was."""
    (machine.folder / "old.service.active").write_text("active\n")
    text = (
        "new = enabled active\nold = enabled active\nslow = enabled active\nonce = enabled active\n"
    )
    for _ in range(2):
        done = machine.run("service", text)
        assert (done.code, done.out, done.err) == (0, "", "")
    assert [machine.state(name) for name in ("new", "old", "slow")] == [
        ("enabled", "active"),
        ("enabled", "active"),
        ("enabled", "activating"),
    ]
    calls = (machine.folder / "called").read_text().splitlines()
    changes = [each for each in calls if not each.startswith("show ")]
    assert all(each.startswith(("--no-reload ", "--no-block ")) for each in changes)
    assert sum("once" in each for each in changes) == 2  # it runs once
    machine.file.unlink()
    assert machine.run("service").code == 0
    assert [machine.state(name) for name in ("new", "old", "slow")] == [
        ("disabled", "inactive"),
        ("disabled", "active"),
        ("disabled", "inactive"),
    ]
    assert not machine.record.exists()


ENDS = {"broken": "Unit is bad", "short": "it is enabled inactive"}


@pytest.mark.parametrize(("name", "why"), ENDS.items(), ids=ENDS)
def test_a_service_that_does_not_run(machine: Machine, name: str, why: str) -> None:
    """The run fails with the reason, and the way back works."""
    done = machine.run("service", f"{name} = enabled active\n")
    assert done.code == 1
    assert f"gpu-node: {name}: is not enabled active: " in done.err and why in done.err
    machine.file.unlink()
    assert machine.run("service").code == 0
    assert machine.state(name)[0] == "disabled"


def test_modules(machine: Machine) -> None:
    """One that is not loaded is; none is unloaded, as a job may use it."""
    machine.program(
        "modprobe",
        '#!/bin/sh\necho "$*" >>"$HERE/called"\n'
        '[ "$2" != gone ] || { echo "FATAL: no gone" >&2; exit 1; }\n',
    )
    assert machine.run("module", "# Ours.\nnvidia_peermem\n").code == 0
    done = machine.run("module", "nvidia_peermem\ngone\n")
    assert (done.code, done.err) == (1, "gpu-node: gone: FATAL: no gone\n")
    machine.file.unlink()
    assert machine.run("module").code == 0
    assert (machine.folder / "called").read_text().splitlines() == [
        *["-- nvidia_peermem", "-- nvidia_peermem", "-- gone"]
    ]


@pytest.fixture
def ours(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which the file of the test is that of services, and time is real."""
    (machine.bin / "sleep").unlink()
    monkeypatch.setattr(operations, "_KINDS", {str(machine.file): "service"})
    monkeypatch.setattr(operations, "BEFORE", f"{machine.folder}/before-")
    return machine


def test_it_is_undone(ours: Machine, backups: Path, shell: str) -> None:
    """Without a new session the node takes the file back, and what follows from it."""
    path, then = str(ours.file), applied(str(ours.file))
    change = replace(path, ABSENT, "new = enabled active\n", confirm_seconds=60, then=then)
    assert run(change, shell).code == 0
    assert run(reread(path), shell).code == 0
    assert ours.state("new") == ("enabled", "active")
    assert run(restore(path), shell).code == 0
    assert ours.state("new") == ("disabled", "inactive")
    assert not ours.file.exists()


def test_it_is_undone_in_time(ours: Machine, backups: Path, shell: str) -> None:
    """By the node alone."""
    path, then = str(ours.file), applied(str(ours.file))
    change = replace(path, ABSENT, "new = enabled active\n", confirm_seconds=8, then=then)
    assert run(change, shell).code == 0
    assert run(reread(path), shell).code == 0
    assert until(lambda: ours.state("new") == ("disabled", "inactive"))
    assert until(lambda: not ours.file.exists())
    assert run(confirm(path, "0" * 64), shell).code == 1


def test_entries() -> None:
    """Those of other names stay, each once; another value replaces one."""
    one = with_entries("", {"vm.a": "1"})
    assert one == f"{operations.HEAD}\nvm.a = 1\n"
    both = with_entries(one, {"vm.b": "2"})
    assert both == f"{operations.HEAD}\nvm.a = 1\nvm.b = 2\n"
    assert with_entries(both, {"vm.a": "3"}) == f"{operations.HEAD}\nvm.b = 2\nvm.a = 3\n"
    assert with_entries(both, {"vm.a": "1", "vm.b": "2"}) == both
    assert with_entries("", {"nvidia_peermem": ""}) == f"{operations.HEAD}\nnvidia_peermem\n"
