"""Records the logs in failed/ and healthy/: runs the jobs of cases.yml over two nodes here.

    sudo python tests/diagnose/recorded/making/record.py WORK [CASE...]

WORK is a folder with room for 16 GB: the first call installs the requirements beside this file.
A node is a set of namespaces (network, host name, mounts, processes, IPC): `node-a` at 10.77.0.1
and `node-b` at 10.77.0.2, joined by a pair of veth. Each has its /home/user/venv, /dev/shm,
/etc/hosts and the user `user`; both have /home/user/shared. No namespace is left when a case has
ended. Debian's packages (DEBIAN) are unpacked into WORK: the nodes see them in /usr, this machine
does not.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MAKING = Path(__file__).parent
NODES = {"node-a": "10.77.0.1", "node-b": "10.77.0.2"}
ENVIRONMENTS = {"venv": "requirements.txt", "venv-older": "requirements-older.txt"}
DEBIAN = ["openssh-server", "pdsh", "openmpi-bin", "nftables"]
PYTHON = Path(os.path.realpath(sys.base_prefix))
HOME = "/home/user"
PATH = f"{HOME}/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LARGEST = 60_000
# What a log may not name: it is of this machine alone.
PRIVATE = re.compile(r"/work\b|/root\b|process_api|/tmp/pytest")
FILES = {
    "passwd": f"root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/bin/false\n"
    f"user:x:1000:1000::{HOME}:/bin/bash\n",
    "shadow": "root:*:1::::::\nuser:*:1::::::\n",
    "group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n"
    + "".join(f"{address} {node}\n" for node, address in NODES.items()),
}
SSHD = f"""Port 22
HostKey /run/sshd/key
AuthorizedKeysFile {HOME}/.ssh/id_ed25519.pub
UsePAM no
PidFile none
"""
START = r"""
set -e
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for folder in usr etc; do
    mount -t overlay -o "lowerdir=$SYSTEM/$folder:/$folder" overlay "/$folder"
done
mount -t tmpfs tmpfs /home
mkdir -p "$HOME/.pyenv/versions/$VERSION" "$HOME/venv" "$HOME/train"
mkdir -p /home/.node/upper /home/.node/work
mount --bind "$PYTHON" "$HOME/.pyenv/versions/$VERSION"
mkdir "$HOME/shared" && mount --bind "$SHARED" "$HOME/shared"
mount -t overlay -o "lowerdir=$VENV,upperdir=/home/.node/upper,workdir=/home/.node/work" \
    overlay "$HOME/venv"
cp "$JOBS"/* "$HOME/train"
for file in passwd shadow group nsswitch.conf hosts; do
    printenv "FILE_${file%.conf}" >"/home/.node/$file"
    mount --bind "/home/.node/$file" "/etc/$file"
done
mkdir -p "$HOME/.ssh" && cp "$KEYS"/* "$HOME/.ssh"
# Its library is found by the path that it was built for, which `user` may not be able to read.
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p "$PYTHON" && mount --bind "$HOME/.pyenv/versions/$VERSION" "$PYTHON"
printf 'node-a %s\nnode-b %s\n' "$(cat "$KEYS/id_ed25519.pub")" "$(cat "$KEYS/id_ed25519.pub")" \
    >"$HOME/.ssh/known_hosts"
chown -R 1000:1000 "$HOME/.ssh" "$HOME/train" && chown 1000:1000 "$HOME"
mount -t tmpfs tmpfs /run && mkdir -p /run/sshd
cp "$KEYS/id_ed25519" /run/sshd/key && printenv SSHD >/run/sshd/config
mount -t tmpfs -o mode=1777 tmpfs /tmp
hostname "$NODE"
ip link set lo up
/usr/sbin/sshd -f /run/sshd/config 2>/dev/null || :
touch /run/started
exec sleep infinity
"""
# What each shell has: the launchers of two nodes, and `kill_rank RANK SIGNAL`.
SHELL = r"""
size="--nnodes 2 --nproc-per-node 2"
launch="torchrun $size --node-rank $NODE_RANK --master-addr node-a --master-port 29500"
elastic="torchrun $size --rdzv-backend c10d --rdzv-endpoint node-a:29500 --rdzv-id 7"
elastic="$elastic --rdzv-conf join_timeout=30,read_timeout=30,last_call_timeout=5"
accelerate="accelerate launch --multi_gpu --num_machines 2 --num_processes 4"
accelerate="$accelerate --main_process_ip node-a --main_process_port 29500"
accelerate="$accelerate --machine_rank $NODE_RANK --mixed_precision no --dynamo_backend no"
slots=$(printf '{"node-a": [0, 1], "node-b": [0, 1]}' | base64 -w0)
deepspeed="python -m deepspeed.launcher.launch --world_info=$slots --node_rank=$NODE_RANK"
deepspeed="$deepspeed --master_addr=10.77.0.1 --master_port=29500"
kill_rank() {
    for process in $(cd /proc && printf '%s\n' [0-9]* | sort -n); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "RANK=$1"; then
            kill "-$2" "$process"; return
        fi
    done
}
"""


class Node:
    """The namespaces of a node, as long as its first process lives."""

    def __init__(self, name: str, work: Path, venv: str, shared: Path, cgroup: Path | None) -> None:
        self.name = name
        self.cgroup = cgroup
        version = ".".join(map(str, sys.version_info[:3]))
        files = {f"FILE_{file.removesuffix('.conf')}": text for file, text in FILES.items()}
        given = {
            **{"NODE": name, "HOME": HOME, "VERSION": version, "PYTHON": str(PYTHON)},
            **{"VENV": str(work / venv), "JOBS": str(MAKING / "jobs"), "KEYS": str(work / "keys")},
            **{"PATH": PATH, "SSHD": SSHD, "SYSTEM": str(work / "system")},
            **{"SHARED": str(shared)},
            **files,
        }
        spaces = ["--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--mount-proc"]
        self.outside = subprocess.Popen(
            ["unshare", *spaces, "--kill-child", "sh", "-c", START], env=given
        )
        children = Path(f"/proc/{self.outside.pid}/task/{self.outside.pid}/children")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if pids := children.read_text().split():
                self.pid = int(pids[0])
                if (self.root / "run/started").exists():
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not start")

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.pid}/root")

    def start(self, script: str, log: Any, user: bool = True) -> subprocess.Popen[bytes]:
        """Start a shell script in the node, as `user` or root."""
        rank = str(list(NODES).index(self.name))
        environment = [f"HOME={HOME}", f"PATH={PATH}", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"]
        environment += [f"NODE_RANK={rank}", "USER=user", "HF_HUB_OFFLINE=1"]
        become = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"] if user else []
        enter = ["nsenter", "-t", str(self.pid), "-n", "-u", "-m", "-p", "-i", "--"]
        command = [*enter, *become, "env", "-i", "--default-signal=INT", *environment]
        command += ["bash", "-c", f"cd {HOME}/train\n{SHELL}{script}"]
        if self.cgroup:
            command = ["sh", "-c", f'echo $$ >{self.cgroup}/tasks; exec "$@"', "-", *command]
        return subprocess.Popen(
            ["nice", "-n", "10", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def as_root(self, script: str) -> None:
        """Run a shell script in the node as root, to its end."""
        if code := self.start(script, None, user=False).wait(60):
            raise RuntimeError(f"{self.name}: exit code {code}: {script}")

    def stop(self) -> None:
        self.outside.kill()
        self.outside.wait()


@contextlib.contextmanager
def memory_group(name: str, limit: str | None) -> Iterator[Path | None]:
    """A cgroup with a limit of memory, below the one that this process is in."""
    if limit is None:
        yield None
        return
    own = re.search(r"^\d+:memory:(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    assert own, "needs cgroup v1"
    group = Path("/sys/fs/cgroup/memory" + own[1]) / f"recorded-{name}"
    group.mkdir(exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(limit)
    try:
        yield group
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


@contextlib.contextmanager
def two_nodes(case: dict[str, Any], work: Path) -> Iterator[dict[str, Node]]:
    """Both nodes, joined by a network; each with its cgroup if `memory` of the case names it."""
    with contextlib.ExitStack() as stack:
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
        os.chown(shared, 1000, 1000)
        nodes = {}
        for name in NODES:
            limit = case.get("memory", {}).get(name)
            group = stack.enter_context(memory_group(name, limit))
            nodes[name] = Node(name, work, case.get("with", "venv"), shared, group)
            stack.callback(nodes[name].stop)
        peer = nodes["node-b"].pid
        nodes["node-a"].as_root("ip link add eth0 type veth peer name eth0-b")
        enter = ["nsenter", "-t", str(nodes["node-a"].pid), "-n", "ip", "link", "set", "eth0-b"]
        subprocess.run([*enter, "netns", str(peer), "name", "eth0"], check=True)
        for name, node in nodes.items():
            node.as_root(f"ip address add {NODES[name]}/24 dev eth0 && ip link set eth0 up")
        yield nodes


def run(case: dict[str, Any], work: Path, raw: Path) -> dict[str, int]:
    """Run a case: its output is in `raw`, a file for both nodes or one for each.

    A launcher that still waits 40 s after the other has failed is interrupted, as by Ctrl-C.
    """
    with two_nodes(case, work) as nodes:
        for node in nodes.values():
            node.start(f"python data.py {case.get('data', '')}", None).wait(60)
        for step in case.get("before", []):
            nodes[step["node"]].as_root(step["do"])
        apart = case.get("as") == "folder"
        logs = {name: raw / f"{name}.log" if apart else raw / "log" for name in nodes}
        started = {}
        for name, node in nodes.items():
            script = case["run"] if isinstance(case["run"], str) else case["run"].get(name)
            if script:
                started[name] = node.start(script, logs[name].open("ab"))
        waiting = list(case.get("meanwhile", []))
        deadline = time.monotonic() + case.get(
            "limit", 420 if "deepspeed" in str(case["run"]) else 150
        )
        ended = 0.0
        while any(process.poll() is None for process in started.values()):
            if time.monotonic() > deadline:
                raise RuntimeError("did not end")
            if not ended and any(process.poll() for process in started.values()):
                ended = time.monotonic()
            if ended and time.monotonic() > ended + 40:
                ended = time.monotonic()
                for node in nodes.values():
                    node.as_root("pkill -INT -o -f 'bin/(torchrun|accelerate)' || true")
            so_far = b"".join(log.read_bytes() for log in set(logs.values()) if log.exists())
            if waiting and waiting[0]["when"].encode() in so_far:
                step = waiting.pop(0)
                time.sleep(step.get("later", 0))
                nodes[step["node"]].as_root(step["do"])
            time.sleep(0.2)
        if waiting:
            raise RuntimeError(f"never seen: {waiting[0]['when']}")
        if apart:
            for name, node in nodes.items():
                found = node.root / HOME.lstrip("/") / "train/logs"
                if found.exists():
                    shutil.copytree(found, raw / name)
    return {name: process.returncode for name, process in started.items()}


def shortened(text: str) -> str:
    """Cut the middle of what is repeated: of lines that differ in digits alone, six remain."""
    kept: list[str] = []
    kinds: list[str] = []
    for line in text.splitlines(keepends=True):
        kind = re.sub(r"[\d.]+|[█▏▎▍▌▋▊▉ ]+", "", line)
        kept.append(line)
        kinds.append(kind)
    out: list[str] = []
    start = 0
    for end in range(1, len(kept) + 1):
        if end == len(kept) or kinds[end] != kinds[start]:
            group = kept[start:end]
            out += group if len(group) <= 7 else [*group[:3], "...\n", *group[-3:]]
            start = end
    return "".join(out)


def keep(name: str, kind: str, case: dict[str, Any], raw: Path) -> None:
    """Put the logs of a case where the tests read them."""
    target = MAKING.parent / kind
    for old in (target / name, target / f"{name}.log", target / f"{name}.log.gz"):
        shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
    files = [path for path in sorted(raw.rglob("*")) if path.is_file() and path.stat().st_size]
    for path in files:
        data = path.read_bytes()
        if len(data) > LARGEST:
            data = shortened(data.decode()).encode()
        if found := PRIVATE.search(data.decode(errors="replace")):
            raise RuntimeError(f"{name}: the log names {found[0]}")
        if len(data) > LARGEST:
            raise RuntimeError(f"{name}: {len(data)} bytes")
        if case.get("as") == "folder":
            place = target / name / path.relative_to(raw)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        elif case.get("as") == "gz":
            (target / f"{name}.log.gz").write_bytes(gzip.compress(data, mtime=0))
        else:
            (target / f"{name}.log").write_bytes(data)


def prepare(work: Path) -> None:
    """Make what the nodes share: the environments, at the path that they have in them, and keys."""
    if not (work / "system").exists():
        (work / "debs/partial").mkdir(parents=True, exist_ok=True)
        fetch = ["apt-get", "install", "-qq", "--no-install-recommends", "--download-only"]
        archives = f"Dir::Cache::archives={work}/debs"
        subprocess.run([*fetch, "-o", archives, *DEBIAN], check=True)
        for package in (work / "debs").glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, work / "system"], check=True)
    if not (work / "keys").exists():
        (work / "keys").mkdir(parents=True)
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "user", "-f"]
        subprocess.run([*key, str(work / "keys/id_ed25519")], check=True)
    version = ".".join(map(str, sys.version_info[:3]))
    python = f"{HOME}/.pyenv/versions/{version}"
    for venv, requirements in ENVIRONMENTS.items():
        if (work / venv / "bin/torchrun").exists():
            continue
        (work / venv).mkdir(parents=True, exist_ok=True)
        script = f"""set -e
            mount -t tmpfs tmpfs /home
            mkdir -p {python} {HOME}/venv
            mount --bind {PYTHON} {python}
            mount --bind {work}/{venv} {HOME}/venv
            {python}/bin/python3 -m venv {HOME}/venv
            DS_BUILD_OPS=0 {HOME}/venv/bin/pip install -q -r {MAKING}/{requirements}"""
        subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = Path(sys.argv[1]).resolve()
    prepare(work)
    cases = yaml.safe_load((MAKING / "cases.yml").read_text("utf-8"))
    for kind, named in cases.items():
        for name, case in named.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            raw = work / "raw" / name
            shutil.rmtree(raw, ignore_errors=True)
            raw.mkdir(parents=True)
            started = time.monotonic()
            try:
                codes = run(case, work, raw)
                if any(codes.values()) is not (kind == "failed"):
                    raise RuntimeError(f"exit codes {codes}")
                keep(name, kind, case, raw)
                result = f"exit codes {list(codes.values())}"
            except RuntimeError as error:
                result = f"NOT RECORDED: {error}"
            print(f"{kind} {name}: {result}, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
