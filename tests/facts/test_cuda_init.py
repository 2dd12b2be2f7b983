"""cuInit is called with a real Python and a stub libcuda, among mounts of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.driver.gpus import parse_answers, smi_section
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.lab.machine import run as compiled
from gpu_node.lab.wheels import COMPILE
from tests import nvidia_smi
from tests.node_scripts import run_apart
from tests.shells import SH

pytestmark = pytest.mark.slow

# cuInit leaves a file behind: what calls it is seen.
STUB = """
int creat(const char *path, unsigned mode);
int pause(void);
int cuInit(unsigned flags) {{ creat("{mark}", 0666); {body} }}
"""
# A /dev with the devices of one GPU, and the modules nvidia and nvidia_uvm.
BEFORE = """
mkdir -p {folder}/old
mount --rbind /dev {folder}/old
mount -t tmpfs -o mode=755 dev /dev
for each in null zero urandom; do touch /dev/$each; mount --bind {folder}/old/$each /dev/$each; done
touch /dev/nvidiactl /dev/nvidia0
chmod 666 /dev/nvidiactl /dev/nvidia0
ln -s null /dev/nvidia-uvm
mount -t tmpfs -o mode=755 sys /sys/module
mkdir /sys/module/nvidia /sys/module/nvidia_uvm
mount -t tmpfs -o mode=755 lab /mnt
mkdir -m 777 /mnt/mark
cp {folder}/libcuda.so.1 /mnt
"""


class Machine:
    """A machine with an nvidia-smi, and a libcuda in the loader's cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        row = "\tlibcuda.so.1 (libc6,x86-64) => /mnt/libcuda.so.1"
        self.program("ldconfig", f"#!/bin/sh\necho '{row}'\n")
        self.smi()
        self.library("return 0;")

    def program(self, name: str, text: str) -> None:
        """Put a program before all others in PATH."""
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def smi(self, persistence: str = "Enabled", mode: str = "Default") -> None:
        """An nvidia-smi with one GPU."""
        text = nvidia_smi.everything(nvidia_smi.gpu(persistence=persistence, mode=mode))
        self.program("nvidia-smi", nvidia_smi.program(text))

    def library(self, body: str) -> None:
        """Compile a libcuda."""
        source = self.folder / "libcuda.c"
        source.write_text(STUB.format(mark="/mnt/mark/called", body=body))
        compiled([*COMPILE, "-o", self.folder / "libcuda.so.1", source])

    def asked(
        self,
        shell: str,
        before: str = "",
        user: str = "",
        called: bool = True,
        environments: tuple[str, ...] = (),
    ) -> CudaInit:
        """What is read of the section there; whether cuInit was called is as expected."""
        section = smi_section(ProbeRequest(user=user, environments=environments))
        script = render([section]).replace("SECONDS = 10", "SECONDS = 1")
        mark = f"{'' if called else '! '}test -e /mnt/mark/called"
        done = run_apart(
            StringCommand(script), shell, BEFORE.format(folder=self.folder) + before, [mark]
        )
        assert (done.code, done.err.strip()) == (0, "")  # a blank line says that it is at work
        reading = read(done.out.splitlines(), [section]).sections["driver.smi"]
        smi, cuda = parse_answers(reading.require()).value
        assert [each.uuid for each in smi.gpus] == ["GPU-1"]
        assert isinstance(cuda, CudaInit)
        return cuda


@pytest.fixture
def machine(programs: Path) -> Machine:
    """A machine whose programs come first in PATH."""
    return Machine(programs.parent)


def test_cuda_works(machine: Machine, shell: str) -> None:
    """cuInit returns 0."""
    assert machine.asked(shell) == CudaInit(code=0, library="/mnt/libcuda.so.1")


@pytest.mark.parametrize("code", [999, 802, 803, 804])
def test_it_fails(machine: Machine, code: int) -> None:
    """Its code is read, whatever nvidia-smi reports."""
    machine.library(f"return {code};")
    assert machine.asked("dash").code == code


def test_another_user(machine: Machine, shell: str) -> None:
    """The training user calls it, and may not open each device."""
    found = machine.asked(shell, "chmod 600 /dev/nvidiactl\n", user="daemon")
    assert (found.code, found.closed) == (0, ("/dev/nvidiactl",))


def test_it_hangs(machine: Machine, shell: str) -> None:
    """It is given up; what nvidia-smi reported is read."""
    machine.library("pause(); return 0;")
    assert machine.asked(shell).problem == "no answer within 10 s"


def test_it_crashes(machine: Machine) -> None:
    """A library may end its process."""
    machine.library("__builtin_trap(); return 0;")
    assert machine.asked("dash").problem.startswith("ended by signal")


def test_a_library_that_is_none(machine: Machine) -> None:
    """An empty file, as an interrupted update leaves it."""
    found = machine.asked("dash", ": >/mnt/libcuda.so.1\n", called=False)
    assert found.problem.startswith("cannot be loaded: /mnt/libcuda.so.1: file too short")


def test_no_library(machine: Machine) -> None:
    """The cache has none, and LD_LIBRARY_PATH names none."""
    machine.program("ldconfig", "#!/bin/sh\n")
    assert machine.asked("dash", called=False).problem == "no libcuda.so.1"


@pytest.mark.parametrize(
    ("before", "lacks", "helped"),
    [
        ("rmdir /sys/module/nvidia_uvm", "module", False),
        ("rm /dev/nvidia-uvm", "device", False),
        ("rm /dev/nvidia-uvm; : >/dev/nvidia-uvm", "device", False),
        ("rmdir /sys/module/nvidia_uvm; put 4755", "module", True),
        ("rmdir /sys/module/nvidia_uvm; put 755", "module", False),
    ],
)
def test_nothing_is_loaded(
    machine: Machine, shell: str, before: str, lacks: str, helped: bool
) -> None:
    """Without nvidia-uvm libcuda would run nvidia-modprobe, which needs root's rights."""
    put = """put() {
        mkdir /mnt/bin; cp /bin/true /mnt/bin/nvidia-modprobe; chmod $1 /mnt/bin/nvidia-modprobe
        mkdir /mnt/up /mnt/work
        mount -t overlay -o lowerdir=/mnt/bin:/usr/bin bin /usr/bin
    }
    """
    found = machine.asked(shell, f"{put}{before}\n", user="daemon", called=False)
    assert (found.lacks, found.helped) == (lacks, helped)
    assert found.code is None and not found.untried


@pytest.mark.parametrize("mode", ["Exclusive_Process", "Prohibited"])
def test_a_mode_that_another_process_may_need(machine: Machine, shell: str, mode: str) -> None:
    """One more process could end a job, or fails by design."""
    machine.smi(mode=mode)
    assert machine.asked(shell, called=False).untried == f"the compute mode is {mode}"


def test_an_idle_gpu_is_not_woken(machine: Machine, shell: str) -> None:
    """Persistence mode is off: it is called only where a process has the GPU open."""
    machine.smi(persistence="Disabled")
    untried = machine.asked(shell, called=False).untried
    assert untried == "it would wake idle GPUs: persistence mode is off"


def test_a_gpu_that_is_awake(machine: Machine, shell: str) -> None:
    """A process has it open."""
    machine.smi(persistence="Disabled")
    assert machine.asked(shell, "exec 9</dev/nvidia0\n").code == 0


def test_root_loads_only_what_is_roots(machine: Machine, shell: str) -> None:
    """Another account may change the library: the training user root does not load it."""
    found = machine.asked(shell, "chown daemon /mnt/libcuda.so.1\n", called=False)
    assert found.untried == "daemon may change /mnt/libcuda.so.1, and root does not load it"
    found = machine.asked(shell, "chmod 777 /mnt/libcuda.so.1\n", called=False)
    assert "everyone may write /mnt/libcuda.so.1" in found.untried
    assert machine.asked(shell, "chown daemon /mnt/libcuda.so.1\n", user="daemon").code == 0


@pytest.mark.parametrize("user", ["no-such-user"])
def test_a_user_who_does_not_exist(machine: Machine, shell: str, user: str) -> None:
    """That is why it is not called."""
    assert machine.asked(shell, user=user, called=False).untried == "no user no-such-user"


# A Python of an environment, and no other one on the machine.
ENVIRONMENT = """
mkdir -p /mnt/env/bin
cp "$(readlink -f /usr/bin/python3)" /mnt/env/bin/python3
for each in /usr/bin/python3 /usr/libexec/platform-python /usr/bin/python /usr/bin/python2; do
    [ ! -e $each ] || mount --bind /dev/null $each
done
"""


def test_the_python_of_an_environment(machine: Machine, shell: str) -> None:
    """It is used where the system has none, and only one that root or the training user owns."""
    given = ("/mnt/gone", "/mnt/env")
    assert machine.asked(shell, ENVIRONMENT, environments=given).code == 0
    other = f"{ENVIRONMENT}chown -R www-data /mnt/env\n"
    found = machine.asked(shell, other, called=False, environments=given)
    assert found.untried == "there is no Python to call it with"
    assert machine.asked(shell, other, user="www-data", environments=given).code == 0


# busybox's own sh is in the group that is stopped: there the section ends at its time limit.
@pytest.mark.parametrize("shell", [each for each in SH if each != "busybox"], indirect=True)
def test_a_user_who_stops_it(machine: Machine, shell: str) -> None:
    """What nvidia-smi reports of the GPUs stays."""
    machine.library(
        "int kill(int, int); int getppid(void); kill(getppid(), 19); kill(0, 19); return 0;"
    )
    found = machine.asked(shell, "chown daemon /mnt/libcuda.so.1\n", user="daemon")
    assert found.untried == "no answer of a process of daemon within 15 s"
