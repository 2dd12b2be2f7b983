"""More processes than one command line may name: any user can start them."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts import fabric
from gpu_node.facts.driver import gpus
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.shm.segments import LOOK
from gpu_node.lab.machine import as_root
from tests.shells import SH, SHELLS

MANY = 7000
# With the smallest stack a command line has 128 KiB. A thread of Python is enough for each process.
STARTED = f"""
import os, signal
for _ in range({MANY}):
    if os.fork() == 0:
        signal.pause()
print("ready", flush=True)
signal.pause()
"""
INSIDE = """
place=$1/shm; mkdir "$place"; mount -t tmpfs none "$place" || exit 1
echo x >"$place/nccl-used"
echo x >"$place/nccl-stale"
sleep 300 3<"$place/nccl-used" &
mknod "$1/gpu" c 1 3
unshare -m sh -c 'mount -t tmpfs none /dev && mknod /dev/nvidia0 c 1 3 &&
  exec sleep 300 3</dev/nvidia0' &
cp "$(readlink -f "$(command -v sleep)")" "$1/nv-fabricmanager"
"$1/nv-fabricmanager" 300 &
/usr/bin/env python3 -c "$2" >"$1/ready" &
until grep -q ready "$1/ready"; do sleep 0.1; done
ulimit -s 256
export place
shift 2
exec "$@"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(mkdtemp(prefix="gpu-node-many-", dir="/var/tmp"))
    yield made
    as_root(["rm", "-rf", made])


@pytest.mark.slow
def test_what_uses_a_segment_and_a_gpu(folder: Path) -> None:
    """Neither is free, whatever the number of processes."""
    (processes,) = (each for each in gpus.SECTIONS if each.name == "driver.processes")
    (switches,) = (each for each in fabric.SECTIONS if each.name == "fabric.switches")
    given = f"gn_process={shlex.quote(PROCESS)}; export gn_process; allow_reload=no\n"
    asked = {
        "use": f"{LOOK}\nuse",
        "outside": f"{text('containers')}\noutside | grep -c .",
        "stats": 'eval "$gn_process"; process_stat | grep -c .',
        "holders": processes.command,
        "switches": switches.command,
    }
    for name, script in asked.items():
        (folder / name).write_text(given + script)
    lines = [
        f"echo {shell} {name} $(PATH={{path}} {shlex.join(SHELLS[shell])} {folder / name} 2>&1 | "
        "grep -v unseen | tr '\\n' ';')"
        for shell in SH
        for name in asked
    ]
    script = "\n".join(line.format(path="$PATH") for line in lines)
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = as_root([*unshare, "sh", "-c", INSIDE, "sh", folder, STARTED, "sh", "-c", script])
    found = {
        (shell, name): rest
        for shell, name, rest in (line.split(" ", 2) for line in done.stdout.splitlines())
    }
    for shell in SH:
        use = found[shell, "use"]
        assert "nccl-stale" in use and "nccl-used" not in use and ";seen;" in use, use
        assert int(found[shell, "stats"].strip(";")) > MANY
        assert found[shell, "outside"] == "1;"
        assert "running;" in found[shell, "switches"]
        assert "\tsleep\t" in found[shell, "holders"] or " sleep " in found[shell, "holders"]


def test_a_listing_that_fails(folder: Path, shell: str) -> None:
    """Without xargs nothing is free: it is unknown."""
    (folder / "shm").mkdir()
    (folder / "shm" / "nccl-stale").touch()
    script = f"xargs() {{ return 127; }}\n{LOOK}\nuse"
    words = ["env", f"place={folder}/shm", *SHELLS[shell], "-c", script]
    assert "seen" not in as_root(words, check=False).stdout.splitlines()
    assert shutil.which("xargs")
