"""What set-up installs, and what it does if apt is busy, refuses, or installs nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_node.lab import roster
from tests.shells import SHELLS

HERE = roster.REPOSITORY / "lab"
SCRIPT, TABLE = HERE / "install.sh", HERE / "needs.tsv"
# Answers by the files beside it: `busy` has how often a lock is held, `refused` and `broken` the
# packages that are not available or install no command.
APT_GET = r"""#!/bin/sh
cd "${0%/*}" || exit
shift
echo "$*" >>calls
left=$(cat busy 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) >busy
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)" >&2
    echo "E: Unable to acquire the dpkg frontend lock, is another process using it?" >&2
    exit 100
fi
if [ -e interrupted ]; then
    echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a'" >&2
    exit 100
fi
[ "$1" != update ] || exit 0
for word; do
    if grep -qsx -e "$word" refused; then
        echo "E: Package '$word' has no installation candidate" >&2
        exit 100
    fi
done
for word; do
    case $word in -* | install) continue ;; esac
    grep -qsx -e "$word" broken || { printf '#!/bin/sh\n' >"$word"; chmod 755 "$word"; }
done
"""
DPKG = '#!/bin/sh\nrm -f "${0%/*}/interrupted"\n'
USED = ("awk", "cat", "chmod", "dirname", "env", "grep", "head", "id", "paste", "printf", "rm")
MORE = ("sleep", "sort", "tail", "tr", "sh")


@dataclass
class Machine:
    """A machine with only a few programs, and an apt that follows its files."""

    folder: Path
    shell: list[str]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a copy of the script that searches commands in no other folder."""
        return subprocess.run(
            [*self.shell, str(self.folder / "install.sh"), *words],
            env={"PATH": str(self.folder / "bin"), **variables},
            capture_output=True,
            text=True,
            timeout=30,
        )

    def write(self, name: str, text: str) -> None:
        """Configure the answers of the stand-in for apt-get."""
        (self.folder / "bin" / name).write_text(text)

    @property
    def calls(self) -> list[str]:
        """The calls of apt-get."""
        file = self.folder / "bin" / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(params=["dash", "bash-posix"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """A machine for root, with its own table."""
    table = "# a comment\nlab\tone\tone\nlab\ttwo\ttwo\ntests\tthree\tthree\n"
    table += "lab\t/nowhere/a:/nowhere/b\tfour?\n"
    (tmp_path / "needs.tsv").write_text(table)
    folders = ":/usr/local/sbin:/usr/sbin:/sbin"
    assert folders in SCRIPT.read_text()
    text = SCRIPT.read_text().replace(folders, "").replace("sleep 2", "sleep 0.01")
    (tmp_path / "install.sh").write_text(text)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*USED, *MORE):
        (folder / name).symlink_to(_place(name))
    for name, content in {"apt-get": APT_GET, "dpkg": DPKG, "apt-cache": "#!/bin/sh\n"}.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    (folder / "id").unlink()
    (folder / "id").write_text("#!/bin/sh\necho 0\n")
    (folder / "id").chmod(0o755)
    program, *options = SHELLS[str(request.param)]
    return Machine(tmp_path, [_place(program), *options])


def _place(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed"
    return path


def test_one_call_installs_all_that_is_missing(machine: Machine) -> None:
    """The second run does nothing and prints nothing."""
    done = machine.run("install", "lab", "tests")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "set-up: installing four one three two\n"
    options = "install -y --no-remove --no-install-recommends"
    assert machine.calls == ["update", f"{options} four one three two"]
    again = machine.run("install", "lab", "tests")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert len(machine.calls) == 2


def test_a_group_needs_no_more_than_its_own(machine: Machine) -> None:
    assert machine.run("missing", "tests").stdout.split() == ["three"]
    assert machine.run("install", "tests").returncode == 0
    assert machine.calls[-1].split()[-1] == "three"
    assert machine.run("missing", "tests").stdout == ""


def test_what_the_distribution_does_not_have_is_left_out(machine: Machine) -> None:
    machine.write("apt-cache", "#!/bin/sh\nexit 100\n")
    assert machine.run("install", "lab").returncode == 0
    assert machine.calls[-1].split()[-2:] == ["one", "two"]
    assert machine.run("missing", "lab").stdout == ""


def test_another_process_that_holds_the_lock_is_waited_for(machine: Machine) -> None:
    """It is named once, however long it takes."""
    machine.write("busy", "5")
    done = machine.run("install", "tests")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("set-up: waiting for another process: Could not get lock /var/lib/")
    assert "process 7 (apt-get)" in lines[1]


def test_a_lock_that_is_never_given_up(machine: Machine) -> None:
    """The last line names the package and the process."""
    machine.write("busy", "10000")
    done = machine.run("install", "tests", LOCK_SECONDS="20")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("set-up: apt cannot install three: Could not get lock")
    assert "process 7 (apt-get)" in last


def test_a_dpkg_that_was_killed_is_completed(machine: Machine) -> None:
    machine.write("interrupted", "")
    done = machine.run("install", "tests")
    assert (done.returncode, done.stderr) == (0, "set-up: installing three\n")


def test_a_package_that_apt_cannot_install(machine: Machine) -> None:
    """One line after the announcement: the package, and apt's reason."""
    machine.write("refused", "three\n")
    done = machine.run("install", "lab", "tests")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        "set-up: apt cannot install four one three two: Package 'three' has no installation "
        "candidate"
    ]


def test_a_command_that_is_still_missing(machine: Machine) -> None:
    """apt succeeds, but the command is missing."""
    machine.write("broken", "three\n")
    done = machine.run("install", "lab", "tests")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        "set-up: apt has installed three, but three is still missing; see: dpkg -L three"
    ]


def test_a_user_without_sudo(machine: Machine) -> None:
    machine.write("id", "#!/bin/sh\necho 1000\n")
    done = machine.run("install", "tests")
    assert (done.returncode, machine.calls) == (1, [])
    assert done.stderr == (
        "set-up: root is needed to install three: run this as root, or install sudo\n"
    )


def test_a_machine_without_apt(machine: Machine) -> None:
    (machine.folder / "bin" / "apt-get").unlink()
    done = machine.run("install", "tests")
    assert done.returncode == 1
    assert done.stderr.endswith("install these yourself: three\n")


def test_the_names_of_all_packages() -> None:
    """`make -s packages` prints every package of the table, installed or not, and nothing else."""
    done = subprocess.run(["sh", SCRIPT, "packages"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line[0] != "#"]
    assert {len(row) for row in rows} == {3}
    assert done.stdout.split() == sorted({row[2].removesuffix("?") for row in rows})
    assert {row[0] for row in rows} == {
        *("setup", "lab", "kernel", "tests", "bench", "slurm", "browser")
    }


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 127", "python3 does not run"),
        (
            "case $2 in *print*) echo 3.9 ;; *) exit 1 ;; esac",
            "python3 is Python 3.9: gpu-node needs",
        ),
        (
            "case $2 in *%d*) echo 3.12 ;; *prefix*) echo /opt ;; *ensure*) exit 1 ;; esac",
            "no ensurepip",
        ),
    ],
)
def test_a_python_that_cannot_be_used(machine: Machine, script: str, says: str) -> None:
    """It is reported before apt is called, which cannot repair it."""
    machine.write("python3", f"#!/bin/sh\n{script}\n")
    done = machine.run("install", "setup", "lab")
    assert done.returncode == 1 and says in done.stderr and "PYTHON=" in done.stderr
    assert machine.calls == []


def test_a_lock_file_that_cannot_be_opened_is_no_lock(machine: Machine) -> None:
    """As on a read-only disk: waiting does not help."""
    text = (
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (30: Read-only file system)"
    )
    machine.write(
        "apt-get", f"#!/bin/sh\necho '{text}' >&2\necho 'E: Unable to acquire' >&2\nexit 100\n"
    )
    done = machine.run("install", "tests")
    assert done.returncode == 1 and "waiting" not in done.stderr
    assert "Read-only file system" in done.stderr


def test_a_table_that_cannot_be_read(machine: Machine) -> None:
    """A missing table, and a line with blanks instead of tabs, are errors."""
    for text in ("lab one one\n", None):
        table = machine.folder / "needs.tsv"
        table.unlink() if text is None else table.write_text(text)
        for action in ("packages", "install"):
            done = machine.run(action)
            assert done.returncode == 1 and "needs.tsv cannot be read" in done.stderr
