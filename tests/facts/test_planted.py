"""A secret in every place that a probe reads: nothing of it is in the whole answer."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.facts.node import SECTIONS, sections
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import as_lines, run

pytestmark = pytest.mark.slow

PLANTED = "PlantedSecret"
LINES = f"""\
export HF_TOKEN={PLANTED} NCCL_DEBUG=INFO # {PLANTED}
export WANDB_API_KEY="{PLANTED} more" LD_LIBRARY_PATH=/nowhere
HF_TOKEN={PLANTED}
return() {{ {PLANTED}; }}
# >>> gpu-node
export HF_TOKEN='{PLANTED}'
"""
# These look at the whole machine, and at nothing that is planted here.
SLOW = ("driver.", "ssh.host-keys", "ssh.logins", "workspace.", "nccl.packages", "nccl.locks")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with the secret in each file, and a trainer of that user with it in its memory."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for name in (".bashrc", ".profile", ".bash_profile", ".nccl.conf", ".deepspeed_env"):
        (home / name).write_text(LINES)
    (home / ".bashrc").write_text(f"echo --token {PLANTED}\n{LINES}")
    (home / ".pam_environment").write_text(f"HF_TOKEN DEFAULT={PLANTED}\n")
    (home / ".ssh" / "config").write_text(
        f"Host *\n ProxyCommand sshpass --password {PLANTED} ssh jump\n"
    )
    (home / ".ssh" / "authorized_keys").write_text(f"ssh-rsa AAAA {PLANTED}\n")
    getent = tmp_path / "getent"
    me = pwd.getpwuid(os.getuid()).pw_name
    getent.write_text(f"#!/bin/sh\necho '{me}:x:{os.getuid()}:0::{home}:/bin/bash'\n")
    getent.chmod(0o755)
    words = ["bash", "-c", "exec -a python3 sleep 60", "--api-key", PLANTED]
    surroundings = {**os.environ, "RANK": "0", "HF_TOKEN": PLANTED, "NCCL_TOKEN": PLANTED}
    with subprocess.Popen(words, env=surroundings) as trainer:
        yield home
        trainer.kill()


def test_it_is_nowhere_in_the_answer(home: Path) -> None:
    """Not even in what travels as hex."""
    asked = [each for each in sections(ProbeRequest()) if not each.name.startswith(SLOW)]
    assert len(asked) > len(SECTIONS) / 2
    surroundings = {
        "PATH": f"{home.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "HF_TOKEN": PLANTED,
        "NCCL_API_KEY": PLANTED,
        "DS_SECRET": PLANTED,
    }
    done = run("dash", render(asked), env=surroundings)
    readings = read(as_lines(done.stdout), asked)
    shown = {name: each.text for name, each in readings.sections.items()}
    assert not {name for name, text in shown.items() if PLANTED in text}
    assert PLANTED.encode() not in done.stdout and PLANTED.encode() not in done.stderr
    # It was read, and what matters of it is there.
    assert "NCCL_DEBUG=INFO" in shown["env.settings"]
    assert "~/.deepspeed_env\t3\tHF_TOKEN=..." in shown["env.conf"]
