"""A user of a machine who puts anything in the place of each file that a probe reads.

    unshare --mount --pid --fork --kill-child --mount-proc python -m tests.facts.users_paths FOLDER

runs as root, where `machine` has prepared FOLDER. It runs each section by itself under strace,
which shows the paths that it uses of those that the user owns. Then it puts each KIND at each of
them in turn, and runs the sections that use it again. It prints all answers as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpu_node.facts.nccl import discovered as unnamed
from gpu_node.facts.node import sections
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Section, render
from gpu_node.facts.probe.request import Copied, ProbeRequest
from tests import environments

USER, UID, CANARY = "daemon", 1, "CanaryOfRoot"
# As long as a section with a time limit of its own may wait here for what the user does.
SECONDS = 4
# What a parser of any file would take for a line of it.
SECRET = f"""\
{CANARY}
export NCCL_{CANARY}={CANARY}
NCCL_DEBUG={CANARY}
# >>> gpu-node
export NCCL_{CANARY}={CANARY}
ssh-ed25519 AAAAC3{CANARY} gpu-node:{CANARY}
Host {CANARY}
ProxyCommand {CANARY}
http_proxy=http://127.0.0.1:3128/{CANARY}
{{"{CANARY}": "{CANARY}"}}
/{CANARY}/bin
"""
FILES = (
    *(".bashrc", ".profile", ".bash_profile", ".nccl.conf", ".deepspeed_env", ".pam_environment"),
    *(".ssh/config", ".ssh/authorized_keys", ".ssh/known_hosts", ".gitconfig", ".pip/pip.conf"),
    *(".config/docker/daemon.json", ".config/git/config", ".config/pip/pip.conf"),
)


@dataclass(frozen=True)
class Machine:
    """The folders of a machine: the user's, root's, and what root alone may read."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> Path:
        return self.folder / "theirs" / "env"

    @property
    def roots_environment(self) -> Path:
        return self.folder / "env"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def secret(self) -> Path:
        return self.folder / "secret"

    @property
    def runtime(self) -> Path:
        return Path(f"/run/user/{UID}")

    @property
    def segment(self) -> Path:
        return Path("/dev/shm/nccl-Ab12Cd")

    @property
    def theirs(self) -> tuple[Path, ...]:
        """The folders and files of the user."""
        torch = next(self.roots_environment.glob("lib/python3*/site-packages")) / "torch"
        return self.home, self.environment.parent, self.work, self.runtime, self.segment, torch

    def owns(self, path: str) -> bool:
        """Whether the user may put anything at a path."""
        parent = Path(path).parent
        is_theirs = any(path.startswith(f"{each}/") for each in self.theirs)
        return is_theirs and parent.is_dir() and parent.stat().st_uid == UID

    def sections(self) -> list[Section]:
        """What a report asks root about this machine, where another account trains."""
        peers = tuple(Peer(name=f"n{each}", address=f"127.0.1.{each}") for each in (1, 2))
        work, folder = str(self.work / "code"), str(self.work / "data")
        request = ProbeRequest(
            environments=(str(self.environment), str(self.roots_environment)),
            nodes=peers,
            user=USER,
            address=peers[0].address,
            mesh=True,
            variables=("OMP_NUM_THREADS",),
            trains_apart=True,
            directories=(folder,),
            below=((folder, "0755"),),
            workspace=Copied(work, work, "n2"),
        )
        others = sections(replace(request, environments=()))
        known = {each.name: each for each in (*sections(request), *others)}
        return list(known.values())


def machine(folder: Path) -> Machine:
    """Prepare a machine in a folder that everyone may enter."""
    made = Machine(folder)
    for name in FILES:
        (made.home / name).parent.mkdir(parents=True, exist_ok=True)
        (made.home / name).write_text("# nothing\n")
    (made.home / ".config/docker/daemon.json").write_text("{}")
    key = made.home / ".ssh/id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (made.home / ".conda").mkdir()
    (made.home / ".conda/environments.txt").write_text(f"{made.environment}\n")
    built = made.home / ".cache/torch_extensions/py311/x"
    built.mkdir(parents=True)
    (built / "build.ninja").write_text("code=sm_80\n")
    (built / "x.so").touch()
    for name in ("code", "data"):
        (made.work / name).mkdir(parents=True)
        pointer = "version https://git-lfs.github.com/spec/v1\n"
        (made.work / name / "model.safetensors").write_text(pointer)
    for prefix in (made.environment, made.roots_environment):
        packages = environments.environment(prefix, "torch", environments.CU12).packages
        (packages / "more.pth").write_text("more\n")
    shutil.copytree(
        packages / "torch", made.home / ".local/lib/python3.0/site-packages/torch", symlinks=True
    )
    made.secret.write_text(SECRET)
    change = (
        f"chown -hR 0:0 {folder}; chmod -R go-w,go+rX {folder}; chmod 600 {made.secret}; "
        f"chown -hR {UID}:{UID} {made.home} {made.environment.parent} {made.work}; "
        # An environment of root with a package of the user.
        f"chown -hR {UID} {packages / 'torch'}; chmod 700 {made.home}/.ssh; chmod 600 {key}"
    )
    subprocess.run(["sh", "-ec", change], check=True)
    return made


def as_user(script: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a shell of the user."""
    argv = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "bash", "-c", script]
    return subprocess.Popen([*argv, *words], cwd="/", env={"PATH": os.environ["PATH"]})


@contextmanager
def living(made: Machine) -> Iterator[None]:
    """Mount what the user has at run time, and start a trainer and a docker of that user."""
    mounts = f"""
mount --make-rprivate /
sed 's,^{USER}:.*,{USER}:x:{UID}:{UID}::{made.home}:/bin/bash,' /etc/passwd >{made.folder}/passwd
mount --bind {made.folder}/passwd /etc/passwd
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs none /run
mkdir /run/user; mkdir -m 700 {made.runtime}; touch {made.segment}
chown -R {UID}:{UID} {made.runtime} {made.segment}
"""
    subprocess.run(["sh", "-ec", mounts], check=True)
    named = "echo dockerd >/proc/self/comm; sleep 900 & wait"
    # Root's counts by its program, which is behind no link.
    program = shutil.copy(os.path.realpath(str(shutil.which("bash"))), "/run/dockerd")
    roots = subprocess.Popen([program, "-c", named, "dockerd", "--default-shm-size=2G"], cwd="/")
    Path("/run/docker.pid").write_text(str(roots.pid))
    docker = as_user(named, "dockerd", f"--config-file={made.secret}")
    trainer = as_user(
        f"export RANK=0; exec -a {made.environment}/bin/torchrun python3 -c "
        "'import time; time.sleep(900)'"
    )
    (made.runtime / "docker.pid").write_text(str(docker.pid))
    os.chown(made.runtime / "docker.pid", UID, UID)
    time.sleep(0.5)
    try:
        yield
    finally:
        for each in (roots, docker, trainer):
            each.kill()


CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\((?P<given>.*)\) += (?P<result>-?\d+)")
CUT = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
FORKS = ("clone", "clone3", "fork", "vfork")
PATH = re.compile(r'^(?:(?:AT_FDCWD|\d+)<(?P<folder>[^>]*)>, )?"(?P<path>(?:[^"\\]|\\.)*)"')


def calls(trace: Path) -> Iterator[re.Match[str]]:
    """Yield the system calls that ended, in the order of their ends."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        if cut := CUT.match(line):
            begun[cut[1]] = cut[2]
            continue
        if resumed := RESUMED.match(line):
            line = f"{resumed[1]} {begun.pop(resumed[1], '')}{resumed[2]}"
        if call := CALL.match(line):
            yield call


def used(trace: Path, made: Machine) -> tuple[set[str], set[str]]:
    """Return the user's paths that processes use, and those that root opens or runs."""
    every = list(calls(trace))
    # A child may do much before the call returns that has made it.
    parents = {call["result"]: call["pid"] for call in every if call["name"] in FORKS}
    uids: dict[str, int] = {}
    found, by_root = set(), set()
    for call in every:
        pid, name, given = call["pid"], call["name"], call["given"]
        uids.setdefault(pid, uids.get(parents.get(pid, ""), 0))
        if name in ("setuid", "setresuid") and call["result"] == "0":
            uids[pid] = int(given.rpartition(",")[2])
        elif path := PATH.match(given):
            place = os.path.normpath(os.path.join(path["folder"] or "/", path["path"]))
            if not made.owns(place):
                continue
            found.add(place)
            is_opened = name.startswith("open") and not re.search("O_(DIRECTORY|PATH)", given)
            is_file = call["result"] != "-1" and not Path(place).is_dir()
            if (is_opened or name.startswith("exec")) and uids[pid] == 0 and is_file:
                by_root.add(place)
    return found, by_root


@dataclass
class Answered:
    """What some sections answer, and how long it takes."""

    text: str
    seconds: float


def asked(wanted: list[Section], *before: str) -> Answered:
    """Ask some sections, as root, in a login."""
    system = "/usr/sbin:/usr/bin:/sbin:/bin"
    env = {"PATH": system, "HOME": "/root", "SHELL": "/bin/bash"}
    began = time.monotonic()
    done = subprocess.run(
        [*before, "sh", "-s"], input=render(wanted).encode(), env=env, capture_output=True, cwd="/"
    )
    seconds = time.monotonic() - began
    return Answered((done.stdout + done.stderr).decode("utf-8", "replace"), seconds)


def pipe(path: Path, _: Machine) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Machine) -> None:
    path.mkdir()


def link(path: Path, made: Machine) -> None:
    path.symlink_to(made.secret)


def loop(path: Path, _: Machine) -> None:
    path.symlink_to(path.name)


def listener(path: Path, _: Machine) -> None:
    # The name of a socket has at most 108 bytes.
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir("/")


KINDS: dict[str, Callable[[Path, Machine], None]] = {
    "link": link,
    "pipe": pipe,
    "socket": listener,
    "folder": folder,
    "loop": loop,
}


@contextmanager
def planted(path: Path, put: Callable[[Path, Machine], None], made: Machine) -> Iterator[None]:
    """Put something in the place of what is there."""
    kept = made.folder / "kept"
    is_there = os.path.lexists(path)
    if is_there:
        shutil.move(path, kept)
    put(path, made)
    os.chown(path, UID, UID, follow_symlinks=False)
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        if is_there:
            shutil.move(kept, path)


def short(section: Section) -> Section:
    """Return a section that is given up sooner."""
    return section if section.light else replace(section, seconds=min(section.seconds, SECONDS))


def main() -> None:
    """Print the answers without and with what the user does."""
    made = Machine(Path(sys.argv[1]))
    found: dict[str, object] = {}
    with living(made):
        # Logins wait for other nodes; they are ssh, as the user.
        every = [each for each in made.sections() if each.name != "ssh.logins"]
        uses, by_root = {}, {}
        for each in every:
            trace = made.folder / "trace"
            words = ["strace", "-f", "-y", "-s", "4096", "-e", "trace=%file,%process,%creds"]
            asked([each], *words, "-o", str(trace))
            uses[each.name], by_root[each.name] = used(trace, made)
        found["opened by root"] = {name: sorted(paths) for name, paths in by_root.items() if paths}
        found["before"] = {each.name: vars(asked([each])) for each in every}
        found["planted"] = planting = []
        for path in sorted(set().union(*uses.values())):
            those = [short(each) for each in every if path in uses[each.name]]
            # It runs the same program as the section about an environment that is named.
            those = [each for each in those if each.name != unnamed.NAME] or those
            for kind, put in KINDS.items():
                with planted(Path(path), partial(put), made):
                    answer = asked(those)
                names = [each.name for each in those]
                planting.append({"path": path, "kind": kind, "sections": names, **vars(answer)})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
