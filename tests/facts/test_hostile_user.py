"""A report as root beside a hostile training user: whose rights each program has that it runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.node import sections
from gpu_node.facts.probe.owner import OWNER
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import Copied, ProbeRequest
from gpu_node.facts.probe.training_user import AS_USER, as_training_user
from gpu_node.facts.toolchain import build
from gpu_node.facts.workspace import pointers
from gpu_node.lab.machine import as_root
from tests.second_account import NAME, OTHER_UID, UID, make_accounts, with_accounts
from tests.shells import SHELLS, as_lines

NVCC = "echo 'Cuda compilation tools, release 12.1, V12.1.105'"
# Variables of root that are no business of a user's.
ROOTS = {"HF_TOKEN": "hf_of_root", "https_proxy": "http://root:word@proxy"}


@dataclass(frozen=True)
class Place:
    """The user's home, another user's programs, root's, and who has run any of them."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def program(self, path: str, text: str = "") -> Path:
        """Write a program that notes its path and who runs it."""
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        noted = shlex.quote(str(self.folder / "ran"))
        made.write_text(
            f'#!/bin/sh\necho "$(/usr/bin/id -u) $0 $(env | tr "\\n" " ")" >>{noted}\n{text}\n'
        )
        made.chmod(0o755)
        return made

    def own(self) -> None:
        """Give each folder to its account."""
        for name, uid in (("home", UID), ("other", OTHER_UID), ("roots", 0)):
            as_root(["chown", "-R", f"{uid}:{uid}", self.folder / name])

    def ran(self) -> list[tuple[int, str, str]]:
        """Uid, path and variables of each program that was run."""
        lines = (self.folder / "ran").read_text().splitlines()
        rows = [line.split(" ", 2) for line in lines]
        return [(int(uid), path, rest) for uid, path, rest in rows]

    def run(self, shell: str, script: str, *before: str) -> subprocess.CompletedProcess[str]:
        """Run a script in a shell of root's, which has variables of root's."""
        (self.folder / "script").write_text(script)
        name, *options = SHELLS[shell]
        given = ["env", *(f"{name}={value}" for name, value in ROOTS.items())]
        words = [str(shutil.which(name)), *options, str(self.folder / "script")]
        return as_root([*before, *with_accounts(self.folder, *given, *words)], check=False)


@pytest.fixture
def place() -> Iterator[Place]:
    """Folders of a user, of another one and of root, below one that every account may enter."""
    made = Place(Path(mkdtemp(prefix="gpu-node-user-", dir="/var/tmp")))
    made.folder.chmod(0o755)
    for name in ("home", "other", "roots"):
        (made.folder / name).mkdir()
    (made.folder / "ran").touch()
    (made.folder / "ran").chmod(0o666)
    make_accounts(made.folder, made.home)
    yield made
    as_root(["rm", "-rf", made.folder])


@pytest.mark.parametrize("owner", ["roots", "other"])
def test_the_compiler_that_a_user_names(place: Place, shell: str, owner: str) -> None:
    """It runs as that user, or not at all: neither root nor its owner runs what a user chose."""
    place.program("home/cuda/bin/nvcc", NVCC)
    named = place.program(f"{owner}/sbin/anything")
    (place.home / ".bashrc").write_text(
        f"printf 'caf\\351'\nexport CUDA_HOME={place.home}/cuda CXX={named} CC={named}\n"
    )
    place.own()
    section = build.section(ProbeRequest(user=NAME, trains_apart=True))
    done = place.run(shell, render([section]))
    readings = read(as_lines(done.stdout.encode()), [section])
    found = readings.take(build.NAME, build.parse)
    assert found is not None and found.cxx is not None, readings.unread
    assert {uid for uid, _, _ in place.ran()} == {UID}
    assert (found.nvcc and found.nvcc.version, found.cxx.path) == ("12.1", str(named))
    if owner == "other":
        assert "runs only what is root's or its own" in found.cxx.output


@pytest.mark.parametrize("sets_user", ["setpriv", "su"])
def test_variables_of_root(place: Place, shell: str, sets_user: str) -> None:
    """A process of another account has none of them; its own are as after a login."""
    program = place.program("home/program")
    place.own()
    without = "" if sets_user == "setpriv" else 'mount --bind /bin/false "$(command -v setpriv)"\n'
    asked = as_training_user(NAME, f'home=/x; {program}; echo "$HOME"; cat')
    script = f"{OWNER}{without}as_account {NAME} {program}\n{asked} <<E\nfrom stdin\nE\n"
    done = place.run(shell, script)
    assert (done.returncode, done.stdout) == (0, f"{place.home}\nfrom stdin\n"), done.stderr
    assert [uid for uid, _, _ in place.ran()] == [UID, UID]
    for _, _, variables in place.ran():
        assert f"HOME={place.home} " in variables and f"USER={NAME} " in variables
        assert not [name for name in ROOTS if name in variables]


@pytest.mark.parametrize("way", ["setpriv", "su", "as_user", "as_launcher"])
def test_descriptors_of_root(place: Place, shell: str, way: str) -> None:
    """A process that another account leaves keeps no lock of root's, and cannot write its file."""
    place.own()
    each = "[ ! -e /proc/$$/fd/$each ] || echo $each"
    look = f"for each in 3 4 5 6 7 8 9; do {each}; done >{place.folder}/ran"
    word = shlex.quote(look)
    asked = f"as_account {NAME} sh -c {word}" if way in ("setpriv", "su") else f"{way} {word}"
    without = 'mount --bind /bin/false "$(command -v setpriv)"\n' if way == "su" else ""
    opened = "".join(f"exec {each}>>{place.folder}/lock\n" for each in range(3, 10))
    script = f"user={NAME}\n{OWNER}{AS_USER}\n{without}{opened}{asked}"
    done = place.run(shell, script)
    assert done.returncode == 0, done.stderr
    assert (place.folder / "ran").read_text() == ""


def test_a_launcher_that_prints_without_end(place: Place, shell: str) -> None:
    """Its output and its errors are capped; the exit status of one that ends is kept."""
    place.own()
    asked = "yes x | head -c 3000000; yes x | head -c 3000000 >&2; exit 3"
    script = (
        f"user={NAME}\n{AS_USER}\nall=$(as_launcher {shlex.quote(asked)} 2>&1); echo ${{#all}}\n"
    )
    script += "all=$(as_launcher 'echo one; exit 3' 2>&1); echo $? $all"
    done = place.run(shell, script)
    size, *rest = done.stdout.splitlines()
    assert int(size) <= 262144 and rest == ["3 one"], done


def test_pointers_below_a_folder_of_root(place: Place, shell: str) -> None:
    """What is in the folder of a user is opened as that user: root could be led anywhere."""
    tree = place.folder / "roots"
    for name in ("own.bin", "u/theirs.bin", "u/closed.bin"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    place.own()
    as_root(["chown", f"{UID}:{UID}", tree / "u", tree / "u/theirs.bin"])
    as_root(["chmod", "600", tree / "u/closed.bin"])
    section = pointers.section([str(tree)], "root")
    done = place.run(shell, render([section]))
    readings = read(as_lines(done.stdout.encode()), [section])
    found = readings.take(pointers.SECTION, pointers.parse)
    assert found is not None, readings.unread
    assert found[str(tree)].clones == {".": ("own.bin",), "u": ("u/theirs.bin",)}, found


# Programs that the probe, or a build, looks for; their folder is the first one in the user's PATH.
COMMANDS = (
    *("awk", "cat", "c++", "cmake", "conda", "df", "find", "g++", "gcc", "getent", "git", "grep"),
    *(
        "head",
        "id",
        "ldconfig",
        "ldd",
        "ls",
        "ninja",
        "nvcc",
        "nvidia-smi",
        "pdsh",
        "pip",
        "python",
    ),
    *("python3", "readlink", "rsync", "sed", "setpriv", "sh", "ssh", "ssh-keygen", "stat", "su"),
    *("sudo", "timeout", "torchrun", "all_reduce_perf"),
)
# A shell that reads nothing of the user's, so that the probe gets its answers.
PASSED_ON = {"sh", "awk", "cat", "sed", "head", "grep", "id", "ls", "readlink", "stat", "timeout"}
LIBRARY = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
  FILE *file = fopen(RAN, "a");
  if (file) { fprintf(file, "%d %s -\\n", geteuid(), PATH); fclose(file); }
}
"""
EXPORTS = """
export PATH={home}/bin:{home}/env/bin:$PATH CUDA_HOME={home}/cuda CUDA_PATH={roots}/cuda
export CXX={roots}/sbin/cxx CC={other}/cc NVCC_CCBIN={roots}/sbin
export TORCH_EXTENSIONS_DIR={home}/extensions XDG_CACHE_HOME={home}/cache
export LD_PRELOAD={home}/evil.so LD_LIBRARY_PATH={home}/lib PYTHONPATH={home}/modules
export PYTHONSTARTUP={home}/bin/python BASH_ENV={home}/bash_env ENV={home}/bash_env
export GIT_SSH_COMMAND={home}/bin/git RSYNC_RSH={home}/bin/rsync SHELL={home}/bin/sh
export NCCL_CONF_FILE={home}/.nccl.conf http_proxy=http://proxy CONDA_EXE={home}/bin/conda
ls() {{ {home}/bin/ls "$@"; }}; export -f ls
"""


def furnish(place: Place) -> None:
    """Fill the user's home with programs and with what names programs."""
    home, roots, other = place.home, place.folder / "roots", place.folder / "other"
    for name in COMMANDS:
        real = f'exec /usr/bin/{name} "$@"' if name in PASSED_ON else "exit 1"
        place.program(f"home/bin/{name}", real)
    place.program("home/cuda/bin/nvcc", NVCC)
    place.program("roots/cuda/bin/nvcc", NVCC)
    for path in ("roots/sbin/cxx", "roots/sbin/gcc", "other/cc", "home/bash_env"):
        place.program(path)
    for where in ("home", "roots", "other"):
        place.program(f"{where}/env/bin/python3")
        torch = place.folder / where / "env/lib/python3.10/site-packages/torch"
        torch.mkdir(parents=True)
        (torch / "version.py").write_text("cuda = '12.1'\n")
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{home}/env\n{roots}/env\n{other}/env\n")
    given = {"RAN": place.folder / "ran", "PATH": home / "evil.so"}
    words = [f'-D{name}="{path}"' for name, path in given.items()]
    built = ["cc", *words, "-shared", "-fPIC", "-o", str(home / "evil.so"), "-xc", "-"]
    subprocess.run(built, input=LIBRARY, text=True, check=True)
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/config").write_text(
        f"Match exec {home}/bin/id\nHost *\n ProxyCommand {home}/bin/git %h\n"
        f" KnownHostsCommand {home}/bin/conda\n"
    )
    text = EXPORTS.format(home=home, roots=roots, other=other)
    for name in (".bashrc", ".profile", ".bash_profile"):
        (home / name).write_text(text)
    (home / ".nccl.conf").write_text(f"NCCL_NET_PLUGIN={home}/evil.so\n")
    for hook in ("post-checkout", "fsmonitor"):
        place.program(f"home/ws/.git/hooks/{hook}")
    (home / "ws/.git/config").write_text(f"[core]\n fsmonitor = {home}/ws/.git/hooks/fsmonitor\n")
    place.own()


@dataclass
class Trace:
    """What each process of a run executed: the effective uid, the path and the variables."""

    folder: Path
    executed: list[tuple[int, str, str]] = field(default_factory=list)

    def follow(self, pid: str, uid: int) -> None:
        """Read a process and those that it started; a setuid program counts as its caller's."""
        file = self.folder / f"trace.{pid}"
        for line in file.read_text(errors="replace").splitlines() if file.exists() else ():
            if match := re.match(r'execve(?:at)?\((?:[^,"]*, )?"([^"]*)", (.*) = 0$', line):
                self.executed.append((uid, match[1], match[2].partition("], [")[2]))
            elif match := re.match(r"(?:clone3?|fork|vfork)\(.* = (\d+)$", line):
                self.follow(match[1], uid)
            elif match := re.match(r"setuid\((\d+)\) += 0", line):
                uid = int(match[1])
            elif match := re.match(r"set(?:res|re)uid\(-?\d+, (-?\d+)(?:, -?\d+)?\) += 0", line):
                uid = uid if match[1] == "-1" else int(match[1])


def traced(place: Place, script: str) -> Trace:
    """Run a script as root below strace."""
    calls = "execve,execveat,clone,clone3,fork,vfork,setuid,setreuid,setresuid"
    folder = place.folder / "trace"
    folder.mkdir(mode=0o700)
    options = ["-ff", "-qq", "-v", "-s", "300", "-e", f"trace={calls}", "-e", "signal=none"]
    done = place.run("dash", script, "strace", *options, "-o", str(folder / "trace"))
    assert done.returncode == 0, done.stderr
    (began,) = (file for file in folder.iterdir() if "/unshare" in file.read_text()[:200])
    trace = Trace(folder)
    trace.follow(began.suffix[1:], 0)
    return trace


@pytest.mark.slow
def test_what_a_report_runs_as_root(place: Place) -> None:
    """Nothing that is the user's, or that only the user names; and no variable of that user."""
    furnish(place)
    workspace = Copied(path=f"{place.home}/ws", origin=f"{place.home}/ws", source="controller")
    request = ProbeRequest(
        user=NAME,
        trains_apart=True,
        environments=(f"{place.home}/env",),
        deep=True,
        nodes=(Peer(name="n1", address="127.0.0.77"), Peer(name="n2", address="127.0.0.78")),
        address="127.0.0.77",
        mesh=True,
        variables=("OMP_NUM_THREADS",),
        directories=(f"{place.home}/ws",),
        below=((f"{place.home}/ws", "0755"),),
        workspace=workspace,
    )
    # Environments are searched for where the inventory names none.
    unnamed = nccl.sections(replace(request, environments=()))[-1]
    asked = [*sections(request), unnamed]
    trace = traced(place, render(asked))
    chosen = re.compile(f"{re.escape(str(place.folder))}/(home|roots|other)/")
    assert len(trace.executed) > 200
    assert not [path for uid, path, _ in trace.executed if uid != UID and chosen.match(path)]
    assert not [row for row in trace.executed if row[0] == OTHER_UID]
    of_root = [(path, given) for uid, path, given in trace.executed if uid == 0]
    # The inventory names the workspace, and passwd the home.
    named = re.compile(rf'"(?!home=|PWD=|OLDPWD=)(\w+)=[^"]*{re.escape(str(place.home))}')
    assert not [(path, named.findall(given)) for path, given in of_root if named.search(given)]
    theirs = [given for uid, _, given in trace.executed if uid == UID]
    assert theirs and not [each for each in theirs for name in ROOTS.values() if name in each]
    ran = {(uid, path.removeprefix(f"{place.folder}/")) for uid, path, _ in place.ran()}
    assert {uid for uid, _ in ran} == {UID}
    assert {"home/cuda/bin/nvcc", "roots/sbin/cxx", "home/evil.so", "home/env/bin/python3"} <= {
        path for _, path in ran
    }
