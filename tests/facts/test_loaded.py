"""The section on what is loaded, in each kind of sh, over a machine's files and a modprobe."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.loaded import SECTIONS, Bar, Loaded, parse_libraries, parse_loaded
from tests.node_scripts import run, run_apart

(LOADED, LIBRARY) = SECTIONS
# As kmod's modprobe shows it: names with underscores, and the command line among them.
DUMP = "# End of configuration files. Dumping indexes now:\n\nalias pci:v000010DEd* nvidia"


class Machine:
    """A machine whose modprobe, modprobe.d and command line are the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modprobe = ""
        self.cmdline = "BOOT_IMAGE=/vmlinuz root=/dev/vda ro quiet"
        for name in ("bin", "etc", "lib", "sys", "units"):
            (folder / name).mkdir()

    def has(self, place: str, text: str) -> None:
        """A file of /etc/modprobe.d or /usr/lib/modprobe.d."""
        folder, name = place.split("/")
        (self.folder / folder / name).write_text(text)

    def loaded(self, shell: str) -> Loaded:
        """What the section finds there."""
        program = self.folder / "bin" / "modprobe"
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(self.modprobe)}\n")
        if not self.modprobe:
            program.write_text("#!/bin/sh\necho 'modprobe: invalid option -- c' >&2\nexit 1\n")
        program.chmod(0o755)
        (self.folder / "cmdline").write_text(self.cmdline + "\n")
        mounts = {"etc": "/etc/modprobe.d", "lib": "/usr/lib/modprobe.d"}
        mounts |= {"sys": "/sys/module", "cmdline": "/proc/cmdline"}
        mounts |= {"units": "/etc/systemd/system"}
        made = "mkdir -p /etc/modprobe.d /usr/lib/modprobe.d /etc/systemd/system\n"
        before = [f"mount --bind {self.folder / name} {place}" for name, place in mounts.items()]
        done = run_apart(StringCommand(LOADED.command), shell, made + "\n".join(before))
        assert (done.code, done.err) == (0, "")
        return parse_loaded(done.out)


@pytest.fixture
def machine(programs: Path) -> Machine:
    """A machine on which nothing is loaded, and nothing kept out."""
    return Machine(programs.parent)


def test_nothing_keeps_it_out(machine: Machine, shell: str) -> None:
    """Other modules' lines, commands that load it, and comments are none."""
    machine.modprobe = (
        "blacklist nouveau\ninstall nvidia_uvm /bin/false\nblacklist nvidiafb\n"
        f"install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n\n{DUMP}\nblacklist nvidia"
    )
    machine.has("etc/nvidia.conf", "# blacklist nvidia\nblacklist nouveau\nblacklist nvidiafb\n")
    machine.cmdline += " modprobe.blacklist=nouveau,nvidiafb rd.driver.blacklist=nvidia"
    assert machine.loaded(shell).bars == ()


def test_a_line_of_a_file(machine: Machine, shell: str) -> None:
    """Each is named with its file, whatever its blanks and dashes are."""
    machine.modprobe = (
        f"blacklist nvidia\nblacklist nvidia_tesla_470\ninstall nvidia /bin/false\n\n{DUMP}"
    )
    machine.has("etc/a.conf", "blacklist\tnvidia\n")
    machine.has("etc/b.conf", "install  nvidia   /bin/false # the old one\n")
    machine.has("lib/c.conf", "blacklist nvidia-tesla-470\n")
    assert machine.loaded(shell).bars == (
        Bar(place="/etc/modprobe.d/a.conf", text="blacklist nvidia"),
        Bar(place="/usr/lib/modprobe.d/c.conf", text="blacklist nvidia_tesla_470"),
        Bar(place="/etc/modprobe.d/b.conf", text="install nvidia /bin/false"),
    )


def test_a_file_that_is_masked(machine: Machine, shell: str) -> None:
    """Ubuntu's prime-select writes one below /usr/lib, which one of /etc may turn off."""
    machine.has("lib/blacklist-nvidia.conf", "blacklist nvidia\nalias nvidia off\n")
    machine.modprobe = DUMP
    assert machine.loaded(shell).bars == ()
    machine.modprobe = f"blacklist nvidia\nalias nvidia off\n\n{DUMP}"
    assert {bar.text for bar in machine.loaded(shell).bars} == {
        "blacklist nvidia",
        "alias nvidia off",
    }


def test_the_command_line(machine: Machine, shell: str) -> None:
    """Named as it is written there, once, although modprobe repeats it."""
    machine.modprobe = f"blacklist nouveau\nblacklist nvidia\n\n{DUMP}"
    machine.cmdline += " modprobe.blacklist=nouveau,nvidia module_blacklist=nvidia"
    assert machine.loaded(shell).bars == (
        Bar(place="/proc/cmdline", text="modprobe.blacklist=nouveau,nvidia"),
        Bar(place="/proc/cmdline", text="module_blacklist=nvidia"),
    )


def test_where_no_file_shows_it(machine: Machine, shell: str) -> None:
    """A file that the SSH user cannot read, or a folder that only modprobe knows."""
    machine.modprobe = f"blacklist nvidia\n\n{DUMP}"
    assert machine.loaded(shell).bars == (Bar(place="modprobe -c", text="blacklist nvidia"),)


def test_a_modprobe_that_shows_nothing(machine: Machine, shell: str) -> None:
    """busybox's has no -c: the files decide."""
    machine.has("etc/a.conf", "blacklist nvidia\n")
    assert machine.loaded(shell).bars == (
        Bar(place="/etc/modprobe.d/a.conf", text="blacklist nvidia"),
    )


def test_what_keeps_persistence_mode(machine: Machine, shell: str) -> None:
    """A comment, and a unit that is not enabled, do not."""
    units = machine.folder / "units" / "multi-user.target.wants"
    units.mkdir(parents=True)
    (units / "other.service").write_text("# nvidia-smi -pm 1\nExecStart=/bin/true\n")
    (machine.folder / "units" / "gpu.service").write_text("ExecStart=/usr/bin/nvidia-smi -pm 1\n")
    (machine.folder / "bin" / "systemctl").symlink_to("/bin/true")
    assert machine.loaded(shell).keeps_persistence is False
    (units / "gpu.service").write_text("ExecStart=/usr/bin/nvidia-smi -pm 1\n")
    assert machine.loaded(shell).keeps_persistence is True


def test_a_daemon_that_leaves_it_off(machine: Machine, shell: str) -> None:
    """Ubuntu's unit does, until another file says how the daemon is started."""
    units = machine.folder / "units"
    wants = units / "multi-user.target.wants"
    (units / "nvidia-persistenced.service.d").mkdir(parents=True)
    wants.mkdir()
    (machine.folder / "bin" / "systemctl").symlink_to("/bin/true")
    start = "ExecStart=/usr/bin/nvidia-persistenced --user nvpd"
    (units / "nvidia-persistenced.service").write_text(f"{start} --no-persistence-mode\n")
    (wants / "other.service").write_text("After=nvidia-persistenced.service\n")
    assert machine.loaded(shell).keeps_persistence is False
    (wants / "nvidia-persistenced.service").symlink_to("../nvidia-persistenced.service")
    assert machine.loaded(shell).keeps_persistence is False
    drop = units / "nvidia-persistenced.service.d" / "gpu-node.conf"
    drop.write_text(f"[Service]\nExecStart=\n{start}\n")
    assert machine.loaded(shell).keeps_persistence is True
    (wants / "nvidia-persistenced.service").unlink()
    assert machine.loaded(shell).keeps_persistence is False


@pytest.fixture
def compat(tmp_path: Path, programs: Path) -> Path:
    """A machine with a driver's libcuda in the loader's cache, and a folder of cuda-compat."""
    for folder in (programs, tmp_path / "compat"):
        folder.mkdir()
    rows = [
        f"\t{name} (libc6,x86-64) => {tmp_path}/{name}"
        for name in ("libnvidia-ml.so.1", "libcuda.so.1")
    ]
    for name in ("libnvidia-ml.so", "libcuda.so"):
        (tmp_path / f"{name}.535.154.05").touch()
        (tmp_path / f"{name}.1").symlink_to(f"{name}.535.154.05")
    program = programs / "ldconfig"
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n")
    program.chmod(0o755)
    return tmp_path / "compat"


@pytest.mark.parametrize(
    ("library_path", "version"),
    [
        ("", "535.154.05"),
        ("/nowhere:{compat}", "580.65.06"),
        (":{compat}/*:", "535.154.05"),
    ],
)
def test_the_libcuda_that_is_loaded(
    compat: Path, shell: str, monkeypatch: pytest.MonkeyPatch, library_path: str, version: str
) -> None:
    """LD_LIBRARY_PATH comes before the loader's cache; libnvidia-ml is the driver's."""
    (compat / "libcuda.so.580.65.06").touch()
    (compat / "libcuda.so.1").symlink_to("libcuda.so.580.65.06")
    monkeypatch.setenv("LD_LIBRARY_PATH", library_path.format(compat=compat))
    done = run(StringCommand(LIBRARY.command), shell)
    assert (done.code, done.err) == (0, "")
    library, cuda = parse_libraries(done.out)
    assert (library, cuda.version) == ("535.154.05", version)
