"""Downloads for nodes without internet: fetched once for all, checked, kept, and sent."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gevent import get_hub
from gevent.lock import BoundedSemaphore
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from gpu_node.deploy.engine.run import Slot, run_of
from gpu_node.deploy.engine.scripts import Script
from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.nccl.state import SUPPLY
from gpu_node.facts.probe.lines import lines_of
from gpu_node.inventories.atomic_write import place
from gpu_node.inventories.escape import visible

_ONE_WHEEL = BoundedSemaphore()
# Kept wheels that were read completely, each with its size and time.
_CHECKED: Slot[set[tuple[str, int, int]]] = Slot(set)
_SECONDS = 3600
# The names that wheels had for a glibc before names had its version. Source: PEP 600.
_OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST = 5
# A node's values become parts of a path and of pip's arguments, and the glibc's minor version the
# length of a list.
_REQUIREMENT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][A-Za-z0-9.+!_]{0,127}")
_PYTHON = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}")
_PLATFORM = re.compile(r"manylinux_2_([0-9]{1,2})_([a-z0-9_]{1,40})")

# A predictable name may already be a link. mktemp(1) gives the folder mode 0700.
_FOLDER = "mktemp -d /var/tmp/gpu-node-sent.XXXXXX"
# If a disk hangs, neither command answers.
_FOLDER_SECONDS = 60
_NAME = re.compile(r"/var/tmp/gpu-node-sent\.[A-Za-z0-9]+")  # noqa: S108 (made by mktemp)


def cache() -> Path:
    """Return the controller's folder for files that it pushes to nodes."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "gpu-node"


def wheel_name(keep: str, python: str, platform: str) -> str:
    """Return the name of a kept wheel: another Python or platform may need another wheel."""
    name, _, version = keep.partition("==")
    return f"{name}-{version}-py{_minor(python)}-{platform or 'unknown'}.whl"


def wheel(
    state: State,
    host: Host,
    keep: str,
    python: str,
    platform: str,
    target: str,
    hashes: str = "",
    insecure_index: bool = False,
) -> bool:
    """Fetch the wheel that a node's pip would choose by this machine's pip, once for all nodes."""
    path = Path(target)
    try:
        tags = platforms(platform)
        if not (_REQUIREMENT.fullmatch(keep) and _PYTHON.fullmatch(python)):
            raise ValueError(f"no wheel for Python {python!r} has this name")
        with _ONE_WHEEL:
            if not path.is_file() or _problem(path, run_of(state).of(_CHECKED)):
                logger.info(f"{host.print_prefix}Fetching {keep} to the controller")
                if not hashes and not insecure_index:
                    _require_proof()
                _fetch(keep, _minor(python), tags, path)
        _require_hash(path, hashes)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = visible(str(error))
        logger.error(
            f"{host.print_prefix}nccl: the controller cannot get {keep} for this node: {why}; "
            "nothing was changed"
        )
        return False
    return True


def _require_proof() -> None:
    """Refuse settings of this machine's pip that use data which others can change in transit."""
    done = run_here([sys.executable, "-I", "-c", SUPPLY, "download"], _SECONDS)
    if done.returncode:
        lines = lines_of(done.stderr.strip()) or [f"it ended with {done.returncode}"]
        raise ValueError(
            f"others could change what the controller's pip fetches: {lines[-1]}; use https "
            "and folders that no other user can change, or set supply: {hashes: ...} or "
            "{insecure_index: true} in the inventory"
        )


def _require_hash(path: Path, hashes: str) -> None:
    """Refuse a wheel that has none of the hashes in the inventory."""
    wanted = re.findall(r"--hash=sha256:([0-9a-f]{64})", hashes)
    if not wanted:
        return
    if (found := sum_of_file(path)) not in wanted:
        path.unlink()
        raise ValueError(f"the wheel has sha256 {found}, the inventory has another")


def platforms(newest: str) -> list[str]:
    """Return the platforms whose wheels a node accepts, the newest first, as arguments of pip."""
    match = _PLATFORM.fullmatch(newest)
    if match is None:
        raise ValueError(
            "the wheels that its Python accepts are unknown: only Linux with glibc has wheels of "
            "NCCL, "
            "and the environment must be readable"
        )
    newest_minor, machine = int(match[1]), match[2]
    tags = []
    for minor in range(newest_minor, _OLDEST - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _OLD_NAMES:
            tags.append(f"{_OLD_NAMES[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _fetch(keep: str, python: str, tags: list[str], path: Path) -> None:
    """Let pip download the wheel beside its place, and move it there after it is checked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".wheel-") as folder:
        _download(keep, python, tags, folder)
        (fetched,) = Path(folder).glob("*.whl")
        if problem := _problem(fetched, set()):
            raise ValueError(f"the wheel that pip downloads is damaged: {problem}")
        place(fetched, path)


def _download(keep: str, python: str, tags: list[str], folder: str) -> None:
    words = ["download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
    words += ["--implementation", "cp", "--python-version", python]
    words += [f"--platform={tag}" for tag in tags]
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    done = run_here([sys.executable, "-I", "-m", "pip", *words, keep], _SECONDS, quiet)
    if done.returncode:
        lines = [line for line in lines_of(done.stderr or done.stdout) if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        raise ValueError((errors or lines or [f"pip ended with {done.returncode}"])[-1])


def _problem(path: Path, checked: set[tuple[str, int, int]]) -> str:
    """Return what is wrong with a wheel, read once in a run; other nodes are not delayed."""
    stamp = (str(path), path.stat().st_size, path.stat().st_mtime_ns)
    if stamp in checked:
        return ""
    problem: str = get_hub().threadpool.apply(_damage, (path,))
    if not problem:
        checked.add(stamp)
    return problem


def _damage(path: Path) -> str:
    """Return why a wheel is not whole; empty if it is. The node compares it with its RECORD."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        return str(error)
    return f"{bad} is not whole" if bad else ""


class Upload(Script):
    """A script that root runs with an uploaded file; sent.sh accepts only the right sha256.

    `make` returns the script for the variables of sent.sh.
    """

    def __init__(self, file: Path, make: Callable[..., Script]):
        super().__init__(*make().bits)
        self.file, self.make = file, make

    @override
    def run(self, state: State, host: Host, given: Any) -> tuple[bool, CommandOutput]:
        nothing = CommandOutput([])
        # Without sudo: only the script runs as root.
        done, output = execute(host.connector, _FOLDER, _FOLDER_SECONDS)
        folder = output.stdout_lines[-1] if done and output.stdout_lines else ""
        if not _NAME.fullmatch(folder):
            why = visible(output.stderr or folder or "it printed nothing")
            logger.error(f"{host.print_prefix}no folder in /var/tmp for {self.file.name}: {why}")
            return False, nothing
        sent = f"{folder}/{self.file.name}"
        try:
            done = host.put_file(str(self.file), sent)
        except BaseException:
            done = False
            raise
        finally:
            if not done:
                execute(host.connector, f"rm -rf {folder}", _FOLDER_SECONDS)
        if not done:
            return False, nothing
        return self.make(sent=sent, sent_sum=sum_of_file(self.file)).run(state, host, given)


def sum_of_file(file: Path) -> str:
    """Return the sha256 of a file of this machine."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
