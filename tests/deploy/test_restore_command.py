"""Deploys and restores by the commands themselves, on this machine in a namespace of the test.

The folders that they write to are overlays, and no process of the machine is there.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from gpu_node.lab.machine import as_root
from tests.apart import APART
from tests.commands import BIN

SECONDS = 240
OPERATIONS = """
from gpu_node.deploy.env import operations as env
from gpu_node.deploy.files import operations as files
from gpu_node.deploy.limits import operations as limits

files.write(path="/etc/nccl.conf", content="NCCL_DEBUG=INFO\\n")
files.write(path="/etc/gpu-node/env.sh", content="export A=1\\n")
env.blocks(path="/root/.bashrc", user="root", top="export OMP_NUM_THREADS='8'\\n")
limits.own_file(path="/etc/security/limits.d/99-gpu-node.conf", content="* soft nofile 1024\\n")
"""
NODE = r"""
mount -t tmpfs none /mnt
for each in etc root var; do
  mkdir -p /mnt/upper/$each /mnt/work/$each
  mount -t overlay none -o lowerdir=/$each,upperdir=/mnt/upper/$each,workdir=/mnt/work/$each /$each
done
rm -rf /var/backups/gpu-node /etc/gpu-node /etc/security/limits.d/*gpu-node*
echo NCCL_OLD=1 >/etc/nccl.conf
chmod 640 /etc/nccl.conf
chown root:daemon /etc/nccl.conf
echo 'token=SECRET' >/root/.bashrc
sums() {
  for file in /etc/nccl.conf /etc/gpu-node/env.sh /root/.bashrc /etc/security/limits.d/*; do
    [ ! -e "$file" ] || { sha256sum "$file"; stat -c '%a %u:%g' "$file"; }
  done
}
export PYTHONDONTWRITEBYTECODE=1
"""
STEPS = """
sums >found
pyinfra -y own.py operations.py >/dev/null 2>&1
sums >converged
gpu-node restore own.py @local --dry >shown
sums | diff converged -
gpu-node restore own.py @local -y
sums | diff found -
gpu-node restore own.py @local -y
sums | diff converged -
first=$(ls -t /var/backups/gpu-node | tail -n 1)
gpu-node restore own.py @local -y --run "$first"
sums | diff found -
"""


def test_there_and_back(tmp_path: Path) -> None:
    """Content, mode and owner by other programs: back, forward again, and back to before a run."""
    (tmp_path / "own.py").write_text("hosts = [('@local', {})]\n")
    (tmp_path / "operations.py").write_text(OPERATIONS)
    lines = [NODE, f"cd {shlex.quote(str(tmp_path))}", f"PATH={BIN}:$PATH", STEPS]
    done = as_root([*APART, "bash", "-euc", "\n".join(lines)], check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = (tmp_path / "shown").read_text()
    assert "/etc/gpu-node/env.sh: is removed" in shown and "  -NCCL_DEBUG=INFO" in shown
    assert "SECRET" not in shown + done.stdout
