"""persistence.sh over a machine of files: for good, by the daemon's unit or by one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.scripts import script
from tests.deploy import running
from tests.deploy.running import Ended, run_apart

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
case $* in *enable*)
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

    def run(self, shell: str, later: str = "no") -> Ended:
        """Turn persistence mode on."""
        places = {"units": "/etc/systemd/system", "vendor": "/usr/lib/systemd/system"}
        places["sys"] = "/sys/module"
        before = [f"mkdir -p {place}" for name, place in places.items() if name != "sys"]
        before += [f"mount --bind {self.folder / name} {place}" for name, place in places.items()]
        return run_apart(script("persistence", later=later), shell, "\n".join(before))

    def called(self) -> list[str]:
        """How systemctl was called."""
        file = self.folder / "called"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine as NVIDIA's installer leaves it."""
    monkeypatch.setattr(running, "FIRST_IN_PATH", f"{tmp_path / 'bin'}:")
    return Machine(tmp_path)


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
