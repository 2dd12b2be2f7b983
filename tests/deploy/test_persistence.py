"""persistence.sh over a machine of files: for good, by the daemon's unit or by one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests.deploy.containing import GPU, ID, Node
from tests.node_scripts import Ended, run_apart

OWN = "gpu-node-persistence.service"
# Stand-ins: nvidia-smi loads the module as the real one does, systemctl makes the link.
PROGRAMS = {
    "nvidia-smi": """
mkdir -p /sys/module/nvidia
case $* in
  '-pm 1') touch "$HERE/on" ;;
  *) if [ -e "$HERE/on" ]; then echo Enabled; else echo Disabled; fi ;;
esac
""",
    "systemctl": """
echo "systemctl $*" >>"$HERE/called"
for unit; do :; done
case $* in
show*) [ ! -e "$HERE/newer" ] || echo NeedDaemonReload=yes ;;
daemon-reload) rm -f "$HERE/newer" ;;
*is-enabled*) [ -e "/etc/systemd/system/multi-user.target.wants/$unit.service" ] ;;
*enable*)
  unit=${unit%.service}.service
  [ -f "/etc/systemd/system/$unit" ] || exit 1
  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -sf "/etc/systemd/system/$unit" /etc/systemd/system/multi-user.target.wants ;;
esac
""",
}


class Machine:
    """A machine with a loaded module, and no unit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "units", "vendor", "sys/nvidia"):
            (folder / name).mkdir(parents=True)
        for name, body in PROGRAMS.items():
            program = folder / "bin" / name
            program.write_text(f"#!/bin/sh\nHERE={folder}\n{body}")
            program.chmod(0o755)

    def before(self) -> list[str]:
        """Have the machine's files where the script looks for them."""
        places = {"units": "/etc/systemd/system", "vendor": "/usr/lib/systemd/system"}
        places["sys"] = "/sys/module"
        made = [f"mkdir -p {place}" for name, place in places.items() if name != "sys"]
        return made + [
            f"mount --bind {self.folder / name} {place}" for name, place in places.items()
        ]

    def run(self, shell: str, later: str = "no", before: str = "", backups: str = "") -> Ended:
        """Turn persistence mode on, where systemd does not run."""
        command = script("persistence", later=later, allow_reload="no", backups=backups)
        return run_apart(command, shell, "\n".join([*self.before(), before]))

    def run_beside(self, node: Node, shell: str, allow: str = "no") -> Ended:
        """Turn it on where systemd runs, and containers."""
        node.lines += self.before()
        return node.run(script("persistence", later="no", allow_reload=allow), shell)

    def called(self) -> list[str]:
        """How systemctl was called."""
        file = self.folder / "called"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(programs: Path) -> Machine:
    """A machine as NVIDIA's installer leaves it."""
    return Machine(programs.parent)


def test_a_driver_without_a_unit(machine: Machine, shell: str) -> None:
    """It gets one, enabled without a reload, and the mode is on now; again changes nothing."""
    for _ in range(2):
        done = machine.run(shell)
        assert (done.code, done.err) == (0, "")
        text = (machine.folder / "units" / OWN).read_text()
        assert f"ExecStart={machine.folder}/bin/nvidia-smi -pm 1\n" in text
        assert [path.name for path in (machine.folder / "units").iterdir() if path.is_file()] == [
            OWN
        ]
        link = machine.folder / "units" / "multi-user.target.wants" / OWN
        assert link.is_symlink() and (machine.folder / "on").exists()
    assert set(machine.called()) == {f"systemctl --no-reload enable {OWN}"}


def test_a_driver_with_a_unit(machine: Machine, shell: str) -> None:
    """That is enabled, and no other is written."""
    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --persistence-mode\n"
    (machine.folder / "units" / "nvidia-persistenced.service").write_text(unit)
    assert machine.run(shell).code == 0
    assert not (machine.folder / "units" / OWN).exists()
    assert (machine.folder / "on").exists()


def test_what_a_restore_lists(machine: Machine, shell: str, backups: Path) -> None:
    """The daemon, if the run has enabled it; a unit of ours is a file of the run."""
    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --persistence-mode\n"
    (machine.folder / "units" / "nvidia-persistenced.service").write_text(unit)
    assert machine.run(shell, backups=str(backups)).code == 0
    assert (backups / "also").read_text() == "+ persistence nvidia-persistenced\n"
    (machine.folder / "on").unlink()
    assert machine.run(shell, backups=str(later := backups.with_name("20260102T000000Z"))).code == 0
    assert (machine.folder / "on").exists() and not (later / "also").exists()


def test_no_module_is_loaded(machine: Machine, shell: str) -> None:
    """Nothing here loads one, not even by a question; before a reboot the unit is enough."""
    (machine.folder / "sys" / "nvidia").rmdir()
    done = machine.run(shell)
    assert done.code == 1 and "the nvidia module is not loaded; nothing was changed" in done.err
    assert machine.called() == []
    assert machine.run(shell, later="yes").code == 0
    assert (machine.folder / "units" / OWN).exists()
    assert not (machine.folder / "on").exists()
    assert list((machine.folder / "sys").iterdir()) == []


UBUNTUS = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --user nvpd --no-persistence-mode\n"
DROP = "nvidia-persistenced.service.d/gpu-node.conf"


@pytest.fixture
def ubuntu(machine: Machine) -> Machine:
    """A machine whose daemon runs with persistence mode off: systemd has read its unit."""
    (machine.folder / "units" / "nvidia-persistenced.service").write_text(UBUNTUS)
    (machine.folder / "newer").touch()
    return machine


def with_a_container() -> Node:
    """A node on which a container has GPUs."""
    node = Node()
    node.begin("job", GPU, f"0::/system.slice/docker-{ID}.scope")
    return node


def test_containers_keep_their_gpus(ubuntu: Machine, shell: str) -> None:
    """The drop-in is written and the mode is on; systemd is not reloaded, and the run says why."""
    done = ubuntu.run_beside(with_a_container(), shell)
    assert (done.code, done.err) == (0, "")
    assert "nvidia-persistenced.service is as written from the next boot on" in done.out
    assert f"container {ID[:12]} (pid " in done.out
    assert "--no-persistence-mode" not in (ubuntu.folder / "units" / DROP).read_text()
    assert (ubuntu.folder / "on").exists()
    assert "systemctl daemon-reload" not in ubuntu.called()


def test_a_reload_where_no_container_has_gpus(ubuntu: Machine, shell: str) -> None:
    done = ubuntu.run_beside(Node(), shell)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert ubuntu.called().count("systemctl daemon-reload") == 1


def test_a_reload_that_was_allowed(ubuntu: Machine, shell: str) -> None:
    """What an earlier run wrote is not written again: only systemd has not read it."""
    ubuntu.run_beside(with_a_container(), shell)
    file = ubuntu.folder / "units" / DROP
    before = file.stat().st_mtime_ns
    done = ubuntu.run_beside(with_a_container(), shell, allow="yes")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert ubuntu.called().count("systemctl daemon-reload") == 1
    assert file.stat().st_mtime_ns == before


def test_nothing_is_reloaded_that_systemd_has_read(ubuntu: Machine, shell: str) -> None:
    """A unit that is not loaded yet is read when it is started."""
    (ubuntu.folder / "newer").unlink()
    assert ubuntu.run_beside(Node(), shell).code == 0
    assert "systemctl daemon-reload" not in ubuntu.called()
    assert "systemctl start nvidia-persistenced" in ubuntu.called()


def test_a_program_of_a_user_in_path(machine: Machine, shell: str) -> None:
    """Root neither runs it nor puts it into a unit."""
    program = machine.folder / "bin" / "nvidia-smi"
    done = machine.run(shell, before=f"chown daemon {program}")
    assert done.code == 1
    assert f"daemon owns {program}, and root does not run it" in done.err
    assert not (machine.folder / "units" / OWN).exists()
    assert not (machine.folder / "on").exists()
