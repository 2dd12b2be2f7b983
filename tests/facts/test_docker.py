"""Docker and podman, read from a node's own files and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from gpu_node.drift.shm import daemon_json
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.shell import assigned
from gpu_node.facts.shm.docker import (
    SECTIONS,
    Docker,
    GpuContainer,
    taken,
    taken_closed,
    taken_containers,
)
from tests.shells import ask

Made = Callable[[Path, Path], None]
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine that runs dockerd as pid 812; its own /proc is the test's."""
    write(tmp_path, "run/docker.pid", "812")
    process(tmp_path, 812, "dockerd", "/usr/bin/dockerd\0-H\0fd://\0")
    write(tmp_path, "proc/812/limits", LIMITS)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def process(root: Path, pid: int, name: str, words: str = "", uid: int = 0) -> None:
    write(root, f"proc/{pid}/comm", f"{name}\n")
    write(root, f"proc/{pid}/status", f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    write(root, f"proc/{pid}/cmdline", words)
    (root / f"proc/{pid}/exe").unlink(missing_ok=True)
    (root / f"proc/{pid}/exe").symlink_to(f"/usr/bin/{name}")


def asked(root: Path, shell: str) -> Readings:
    return ask(shell, [on(root, each) for each in SECTIONS])


def on(root: Path, section: Section) -> Section:
    return replace(section, command=assigned(root=root) + section.command)


def docker(root: Path, shell: str) -> Docker:
    readings = asked(root, shell)
    found = taken(readings)
    assert found is not None, readings.unread
    return found


def test_a_docker(root: Path, shell: str) -> None:
    """Its file, its flags in both forms, the limits that containers inherit."""
    words = "/usr/bin/dockerd\0--default-shm-size\0002G\0--default-ulimit=nofile=1:2\0--debug\0"
    process(root, 812, "dockerd", words)
    write(root, "etc/docker/daemon.json", '{\n\t"a": "b"\n}\n')
    write(root, "etc/default/docker", "# --default-shm-size=1\nOPTS=--default-shm-size=2G\n")
    (daemon,) = docker(root, shell).daemons
    assert (daemon.kind, daemon.pid, daemon.text) == ("root", 812, '{\n\t"a": "..."\n}')
    assert [(each.name, each.value) for each in daemon.flags] == [
        ("--default-shm-size", "2G"),
        ("--default-ulimit", "nofile=1:2"),
    ]
    assert daemon.limits == {"nofile": 1048576, "memlock": "unlimited"}
    assert [(each.path, each.line) for each in daemon.units] == [("/etc/default/docker", 2)]


def test_no_secret_of_daemon_json_leaves_the_node(root: Path, shell: str) -> None:
    """Its sizes and numbers do, and the line in which it is no JSON."""
    text = (
        '{"proxies": {"http-proxy": "http://me:SecretOfRoot@proxy"}, "debug": true,\n'
        ' "log-opts": {"splunk-token":\t"SecretOfRoot \\" {SecretOfRoot: 1"},'
        ' "a": ["SecretOfRoot"],\n "default-shm-size" : "2G",'
        ' "default-ulimits": {"nofile": {"Name": "nofile", "Soft": 9}}\n}'
    )
    unit = "ExecStart=/usr/bin/dockerd --log-opt token=SecretOfRoot --default-shm-size 2G -D\n"
    for written in (text, text + "SecretOfRoot", f'{{"a": "b" "SecretOfRoot}}\n{text}'):
        write(root, "etc/docker/daemon.json", written)
        write(root, "etc/systemd/system/docker.service", unit)
        readings = asked(root, shell)
        assert "SecretOfRoot" not in str(readings.sections)
        found = taken(readings)
        assert found is not None and found.daemons[0].text is not None
        if written == text:
            values = daemon_json.values_of(found.daemons[0].text)
            assert (values["default-shm-size"], values["debug"]) == ("2G", True)
            assert values["default-ulimits"]["nofile"]["Soft"] == 9
        else:
            with pytest.raises(ValueError, match=r"it is not JSON \(line [14]\)"):
                daemon_json.values_of(found.daemons[0].text)
        assert found.daemons[0].units[0].text == "--default-shm-size 2G"


def test_another_file(root: Path, shell: str) -> None:
    process(root, 812, "dockerd", "dockerd\0--config-file=/srv/d.json\0")
    write(root, "srv/d.json", "{}")
    (daemon,) = docker(root, shell).daemons
    assert (daemon.path, daemon.text) == ("/srv/d.json", "{}")


def test_a_machine_without(tmp_path: Path, shell: str) -> None:
    assert docker(tmp_path, shell) == Docker()


def test_a_pid_that_is_another_programs_now(root: Path) -> None:
    """Or that of a process of a user, which has any name: as root its flags name no file."""
    process(root, 812, "python")
    assert docker(root, "dash").daemons == ()
    process(root, 812, "dockerd", "dockerd\0--config-file=/srv/secret\0", uid=1000)
    write(root, "srv/secret", SECRET)
    assert docker(root, "dash").daemons == ()


def test_a_dockerd_of_a_container(root: Path, shell: str) -> None:
    """It may have the pid that an ended dockerd has left in its file."""
    for pid, space in (("self", "pid:[1]"), ("812", "pid:[2]")):
        (root / f"proc/{pid}/ns").mkdir(parents=True)
        (root / f"proc/{pid}/ns/pid").symlink_to(space)
    assert docker(root, shell).daemons == ()


def test_a_program_of_root_that_a_user_started_by_that_name(root: Path, shell: str) -> None:
    """As sudo is, behind a link that has the name: it has the command line that the user chose."""
    process(root, 812, "dockerd", "dockerd\0--config-file=/srv/secret\0")
    write(root, "srv/secret", SECRET)
    (root / "proc/812/exe").unlink()
    (root / "proc/812/exe").symlink_to("/usr/bin/sudo")
    assert docker(root, shell).daemons == ()
    assert "of root" not in str(asked(root, shell))


SECRET = '{"secret": "of root"}'
USER, PIDS = 1, "run/user/1/docker.pid"


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A machine where a user has a rootless docker, and root a secret."""
    root = Path(mkdtemp(prefix="gpu-node-docker-"))
    home = Path(os.path.expanduser("~daemon")).relative_to("/")
    (root / home / ".config/docker").mkdir(parents=True)
    (root / "daemon.json").symlink_to(root / home / ".config/docker/daemon.json")
    write(root, "secret", SECRET)
    (root / "secret").chmod(0o600)
    write(root, PIDS, "901")
    process(root, 901, "dockerd", "dockerd\0--config-file=/secret\0--default-shm-size=1G\0", USER)
    root.chmod(0o755)
    yield root
    rmtree(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_rootless_docker(theirs: Path, shell: str) -> None:
    """Its file is the usual one, read as its user: its command line names no other."""
    (theirs / "daemon.json").resolve().write_text("{}")
    (daemon,) = docker(theirs, shell).daemons
    assert (daemon.kind, daemon.pid, daemon.text, daemon.problem) == ("rootless", 901, "{}", "")
    assert daemon.path.endswith("/.config/docker/daemon.json")
    assert [each.value for each in daemon.flags] == ["/secret", "1G"]
    (theirs / "daemon.json").resolve().unlink()
    (daemon,) = docker(theirs, shell).daemons
    assert (daemon.text, daemon.problem) == (None, "")


def as_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)
    path.chmod(0o644)


def as_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def as_endless(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
@pytest.mark.parametrize("made", [as_pipe, as_link, as_endless])
@pytest.mark.parametrize("name", [PIDS, "daemon.json"])
def test_what_a_user_puts_in_the_place_of_a_file(theirs: Path, name: str, made: Made) -> None:
    """Root reads none of it, and waits for nothing; only that user's docker is affected."""
    place = (theirs / name).resolve()
    place.unlink(missing_ok=True)
    made(place, theirs / "secret")
    began = time.monotonic()
    readings = asked(theirs, "dash")
    assert time.monotonic() - began < 5
    docker = taken(readings)
    assert docker is not None and not readings.unread
    found = docker.daemons
    assert "of root" not in str(readings)
    if name == PIDS:
        assert found == ()
    else:
        assert found[0].text is None and found[0].problem


# Finds what reads the files below a folder as this account, and stops it; `hold` keeps its output
# open, too.
STOPPING = """
import ctypes, os, signal, sys
libc, PIDFD_GETFD = ctypes.CDLL(None), 438
place, how, user = os.fsencode(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgid(user)
os.setuid(user)
done = set()
print("ready", flush=True)
while True:
    for pid in [each for each in os.listdir("/proc") if each.isdigit() and each not in done]:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if int(pid) == os.getpid() or place not in file.read():
                    continue
            if how == "hold":
                libc.syscall(PIDFD_GETFD, os.pidfd_open(int(pid)), 1, 0)
            os.kill(int(pid), signal.SIGSTOP)
            done.add(pid)
        except OSError:
            pass
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
@pytest.mark.parametrize("how", ["stop", "hold"])
def test_a_user_who_stops_the_reader(theirs: Path, how: str, shell: str) -> None:
    """Root's docker is read all the same, and the report has that the user's is unknown."""
    write(theirs, "run/docker.pid", "812")
    process(theirs, 812, "dockerd", "/usr/bin/dockerd\0--default-shm-size=2G\0")
    words = [sys.executable, "-c", STOPPING, str(theirs), how, str(USER)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as stopping:
        assert stopping.stdout is not None and stopping.stdout.readline()
        give_up = time.monotonic() + 60
        while True:  # until it finds the reader, which lives for some milliseconds
            readings = asked(theirs, shell)
            found = taken(readings)
            if found is None or len(found.daemons) == 1 or time.monotonic() > give_up:
                break
        stopping.kill()
    assert found is not None, readings.unread
    assert [each.kind for each in found.daemons] == ["root"]
    (unread,) = readings.unread
    assert "uid 1: no answer" in unread.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_process_of_another_user(theirs: Path) -> None:
    process(theirs, 901, "dockerd", "dockerd\0", uid=2)
    assert docker(theirs, "dash").daemons == ()


def test_a_file_of_root_that_is_not_one(root: Path) -> None:
    """The section says so: what docker reads is unknown."""
    (root / "etc/docker/daemon.json").mkdir(parents=True)
    assert "is not a regular file" in asked(root, "dash").sections[SECTIONS[0].name].text


def test_podman(tmp_path: Path, shell: str) -> None:
    """Only one that root has used; the last of its files that sets the size decides."""
    write(tmp_path, "usr/share/containers/containers.conf", '[containers]\n#shm_size = "1k"\n')
    write(tmp_path, "etc/containers/containers.conf", '[engine]\nshm_size = "1k"\n')
    write(
        tmp_path,
        "etc/containers/containers.conf.d/a.conf",
        '[containers]\nshm_size = "2g" # of ours\n',
    )
    assert docker(tmp_path, shell).podman is None
    write(tmp_path, "var/lib/containers/storage/db.sql", "x")
    sizes = docker(tmp_path, shell).podman
    assert sizes is not None
    assert [(each.path, each.line, each.value) for each in sizes] == [
        ("/etc/containers/containers.conf.d/a.conf", 2, "2g")
    ]


MOUNTS = """\
1 0 0:50 / / rw - overlay overlay rw
2 1 0:51 / /dev/shm rw,nosuid - tmpfs shm rw,{size}
3 1 0:52 /x /usr/lib/x86_64-linux-gnu/libcuda.so.535.154.05 ro - ext4 /dev/sda1 ro
"""


def test_running_containers(tmp_path: Path, shell: str) -> None:
    """One process of each mount namespace but the host's; those with GPUs and a /dev/shm."""
    (tmp_path / "run/docker").mkdir(parents=True)
    for pid, namespace, mounts in (
        ("1", "1", ""),
        ("self", "1", ""),
        ("40", "7", MOUNTS.format(size="size=65536k,inode64")),
        ("41", "7", ""),
        ("50", "8", MOUNTS.format(size="mode=1777")),
        ("60", "9", MOUNTS.format(size="size=65536k").replace("libcuda", "libc")),
    ):
        write(tmp_path, f"proc/{pid}/mountinfo", mounts)
        write(tmp_path, f"proc/{pid}/comm", "python 3\n")
        write(tmp_path, f"proc/{pid}/cgroup", f"1:name=systemd:/\n0::/docker/{pid}abc\n")
        (tmp_path / f"proc/{pid}/ns").mkdir()
        (tmp_path / f"proc/{pid}/ns/mnt").symlink_to(f"mnt:[{namespace}]")
    readings = asked(tmp_path, shell)
    assert taken_containers(readings) == (
        GpuContainer(pid=40, shm=64 << 20, cgroup="/docker/40abc", name="python 3"),
        GpuContainer(pid=50, shm=None, cgroup="/docker/50abc", name="python 3"),
    )


def test_processes_that_only_root_sees(tmp_path: Path, shell: str) -> None:
    """No link is shown of them: each would count as a namespace, and that of no container."""
    (tmp_path / "run/docker").mkdir(parents=True)
    for pid in range(1, 300):
        write(tmp_path, f"proc/{pid}/ns/mnt", "")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    link = tmp_path / "proc/self/ns/mnt"
    link.symlink_to("mnt:[1]")
    assert taken_containers(asked(tmp_path, shell)) == ()  # root: they ended meanwhile
    os.lchown(link, 65534, 65534)
    readings = asked(tmp_path, shell)
    assert (taken_containers(readings), taken_closed(readings)) == (None, 299)
    assert "shm.containers" not in {each.section for each in readings.unread}
