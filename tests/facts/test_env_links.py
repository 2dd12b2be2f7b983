"""What is no file in a home: a link to what its user may not read, a pipe, a device, a huge one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.env import state as env
from gpu_node.facts.env.start_files import parse_start_file
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Readings
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import mesh
from tests.shells import ask

USER, SECRET = "daemon", "NCCL_PLANTED=root:only"
FILES = (".nccl.conf", ".deepspeed_env", ".bashrc", ".profile")
SECTION = {".nccl.conf": "env.conf", ".deepspeed_env": "env.conf", ".profile": "env.settings"}


@pytest.fixture
def home() -> Iterator[Path]:
    """The home of an account of this machine, as `getent` prints it, where others may go."""
    place = Path(mkdtemp(prefix="gpu-node-links-"))
    place.chmod(0o755)
    home, tools = place / "home", place / "bin"
    home.mkdir()
    tools.mkdir()
    getent = tools / "getent"
    getent.write_text(f"#!/bin/sh\necho '{USER}:x:1:1::{home}:/bin/bash'\n")
    getent.chmod(0o755)
    yield home
    shutil.rmtree(place)


def asked(home: Path, shell: str, *names: str) -> tuple[Readings, str]:
    """What some sections answer of that user, and all of it as text."""
    sections = [each for each in env.sections(ProbeRequest(user=USER)) if each.name in names]
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    readings = ask(shell, sections, {"PATH": path})
    return readings, "".join(each.text for each in readings.sections.values())


def to_root_only(path: Path) -> str:
    """A link to what the user may not read."""
    secret = path.parent.parent / "secret"
    secret.write_text(f"{SECRET}\n# >>> gpu-node\nexport {SECRET}\n")
    secret.chmod(0o600)
    path.symlink_to(secret)
    return "ermission denied"


def pipe(path: Path) -> str:
    """A pipe without a writer: opening it blocks."""
    os.mkfifo(path)
    path.chmod(0o644)
    return "is not a regular file"


def huge(path: Path) -> str:
    """A gigabyte of nothing."""
    with path.open("wb") as file:
        file.truncate(1 << 30)
    return "has more than 1 MiB"


def device(path: Path) -> str:
    """A device that never ends."""
    path.symlink_to("/dev/zero")
    return "is not a regular file"


def folder(path: Path) -> str:
    """A folder in the place of a file."""
    path.mkdir()
    return "is not a regular file"


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("made", [to_root_only, pipe, huge, device, folder])
def test_what_is_no_file_of_the_user(home: Path, made: Callable[[Path], str], name: str) -> None:
    """The section says so, at once, and shows nothing of it."""
    why = made(home / name)
    began = time.monotonic()
    readings, text = asked(home, "dash", SECTION.get(name, "env.bashrc"))
    assert time.monotonic() - began < 5
    (reading,) = readings.sections.values()
    assert reading.rc == 1 and why in reading.text
    assert "PLANTED" not in text and "root:only" not in text


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_pipe_in_the_place_of_ssh_s_settings(home: Path) -> None:
    """ssh would wait for a writer until the time limit."""
    (home / ".ssh").mkdir()
    pipe(home / ".ssh" / "config")
    peers = (Peer(name="n1", address="127.0.1.1"),)
    sections = mesh.sections(ProbeRequest(user=USER, nodes=peers, mesh=True))
    (known,) = (each for each in sections if each.name == "ssh.known")
    readings = ask("dash", [known], {"PATH": f"{home.parent / 'bin'}:{os.environ['PATH']}"})
    reading = readings.sections["ssh.known"]
    assert reading.rc == 1 and "config is not a regular file" in reading.text


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_link_to_a_file_of_the_user(home: Path, shell: str) -> None:
    """Dot files that a user keeps elsewhere are read as ever."""
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "conf").write_text("NCCL_DEBUG=INFO\n")
    (home / ".nccl.conf").symlink_to("dotfiles/conf")
    readings, text = asked(home, shell, "env.conf")
    assert readings.sections["env.conf"].rc == 0
    assert "~/.nccl.conf\t1\tNCCL_DEBUG=INFO" in text


# Set-up installs busybox and original-awk; Debian has mawk.
AWKS = ("mawk", "gawk", "busybox", "original-awk")
LINES = """\
export HF_TOKEN=PLANTED NCCL_DEBUG=INFO; curl -H "x: PLANTED" # PLANTED
export "NCCL_ALGO=Ring" 'WANDB_API_KEY=PLANTED'
export NCCL_TOKEN=PLANTED
export NCCL_PROTO="$(show PLANTED)"
HF_TOKEN="PLANTED NCCL_X=1" NCCL_NTHREADS=4
NCCL_DEBUG=WARN python --key PLANTED
alias x="NCCL_DEBUG=PLANTED train"
unset NCCL_IB_HCA PLANTED
if [ PLANTED ]; then export NCCL_BUFFSIZE=8; fi
exit() { echo PLANTED; }
case $- in *i*) ;; *) return PLANTED;; esac
# >>> gpu-node
export OMP_NUM_THREADS='4'
export OLD_KEY='PLANTED'
# PLANTED
PLANTED
# <<< gpu-node
# >>> gpu-node: never closed
HF_TOKEN=PLANTED
export HF_TOKEN=PLANTED
"""


@pytest.mark.parametrize("awk", [None, *filter(shutil.which, AWKS)])
@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_only_what_matters_leaves_the_node(home: Path, awk: str | None) -> None:
    """Values of the variables that are looked for; of all else neither values nor words."""
    if awk is not None:
        (home.parent / "bin" / "awk").symlink_to(str(shutil.which(awk)))
    for name in (".bashrc", ".profile", ".nccl.conf", ".deepspeed_env"):
        (home / name).write_text(LINES)
    (home / ".pam_environment").write_text(
        "HF_TOKEN DEFAULT=PLANTED\nNCCL_DEBUG DEFAULT=INFO OVERRIDE=\nX=PLANTED NCCL_Y=1\n"
    )
    readings, text = asked(home, "dash", "env.bashrc", "env.settings", "env.conf")
    assert all(each.rc == 0 for each in readings.sections.values()), text
    # The value of a variable that counts is sent, whatever it is.
    kept = [line for line in text.split("\n") if "PLANTED" in line]
    sent = '4\texport NCCL_PROTO="$(show PLANTED)"'
    assert [line.partition("\t")[2] for line in kept] == [sent] * 2, text
    settings = env.parse_settings(readings.sections["env.settings"].require())
    mine = [(each.name, each.value) for each in settings if each.path == "~/.bashrc"]
    assert mine == [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_ALGO", "Ring"),
        ("NCCL_TOKEN", "..."),
        ("NCCL_PROTO", "$"),
        ("NCCL_NTHREADS", "4"),
        ("NCCL_IB_HCA", None),
        ("NCCL_BUFFSIZE", "8"),
        ("OMP_NUM_THREADS", "4"),
    ]
    pam = [each.value for each in settings if each.path == "~/.pam_environment"]
    assert pam == ["INFO"]
    bashrc = parse_start_file(readings.sections["env.bashrc"].require())
    assert bashrc.returns == 11 and bashrc.lines == 20
