"""A report, a dry run and a deploy that repair nothing: no file of the node changes.

The node is this machine, `@local`, in a mount namespace of the test. Its folders are overlays: the
upper layer has each file whose content, mode or time a run has changed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpu_node.lab.machine import as_root
from tests.commands import BIN, REPOSITORY

SECONDS = 180
# A name that no library reads needs manual action. Start files of root are this machine's own.
NODE = """
mount -t tmpfs none /mnt
mkdir -p /mnt/made/etc /mnt/made/root
echo NCCL_SOCKET_IFNAM=eno1 >/mnt/made/etc/environment
for each in .bashrc .bash_profile .bash_login .profile; do : >/mnt/made/root/$each; done
for each in etc home opt root srv usr var; do
  [ -d /$each ] || continue
  mkdir -p /mnt/made/$each /mnt/upper/$each /mnt/work/$each
  lower=lowerdir=/mnt/made/$each:/$each
  mount -t overlay none -o $lower,upperdir=/mnt/upper/$each,workdir=/mnt/work/$each /$each
done
touch /mnt/begun
sleep 0.1 # a time of a file is that of the kernel's last tick
"""
# What is in the upper layer, and the folders above in which a file came and went.
CHANGED = "find /mnt/upper -mindepth 2; find /mnt/upper -mindepth 1 -maxdepth 1 -newer /mnt/begun"
RUNS = {
    "report": ["gpu-node", "drift"],
    "dry": ["gpu-node", "deploy", "--dry"],
    "deploy": ["gpu-node", "deploy", "-y"],
    "pyinfra": ["pyinfra", "-y"],
}


def changed(folder: Path, *commands: str) -> tuple[str, list[str]]:
    """Return what commands print on the node, and the paths that they have changed."""
    (folder / "own.py").write_text("hosts = [('@local', {})]\n")
    found = folder / "changed"
    lines = [
        NODE,
        f"cd {shlex.quote(str(folder))}",
        "export PYTHONDONTWRITEBYTECODE=1",
        *commands,
        f"{{ {CHANGED}; }} >{shlex.quote(str(found))}",
    ]
    done = as_root(["unshare", "--mount", "bash", "-ec", "\n".join(lines)], timeout=SECONDS)
    return done.stdout + done.stderr, found.read_text().splitlines()


def test_a_change_is_seen(tmp_path: Path) -> None:
    """Of a time alone, of a file that is made, and of one that is made and removed."""
    lines = ("touch /etc/passwd", ": >/var/tmp/new", "mkdir /srv/a; rmdir /srv/a")
    _, paths = changed(tmp_path, *lines)
    upper = Path("/mnt/upper")
    wanted = {upper / "etc/passwd", upper / "var/tmp/new", upper / "var/tmp", upper / "srv"}
    assert wanted <= {Path(each) for each in paths}


@pytest.mark.slow
@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS)
def test_nothing_changes(words: list[str], tmp_path: Path) -> None:
    """The run has a finding, and only a manual one."""
    program, *rest = words
    deploy = [str(REPOSITORY / "deploy" / "gpu_node.py")] if program == "pyinfra" else []
    command = shlex.join([str(BIN / program), *rest, "own.py", *deploy])
    output, paths = changed(tmp_path, f"{command} </dev/null || [ $? = 2 ]")
    assert "env.unknown-variable" in output
    assert re.search("Nothing (to|that the deploy can) repair", output) or words == RUNS["report"]
    assert paths == []
