"""Each command line of README, tutorial and how-tos, as tests/docs/commands.yml has it run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpu_node.facts.ssh.state import fingerprint
from gpu_node.lab import keys, nodes, roster
from gpu_node.lab.launcher import layer
from tests.docs.pages import Line, known
from tests.e2e.conftest import CONVERGED
from tests.e2e.on_lab import BIN, MANAGED, REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.lab_slow]

NEW = roster.NODES["v100-02"]
PAGES = {page: lines for page, lines in known().items() if any(not each.not_run for each in lines)}
LOG = REPOSITORY / "tests" / "diagnose" / "recorded" / "failed" / "no-cuda.log"
LAUNCH = """#!/bin/bash
#SBATCH --nodes=2
${CHECK:-} torchrun --nnodes 2 --nproc_per_node 2 --master_addr 10.168.144.4 train.py
${CHECK:+exit}
"""
SECONDS = 900


def _fingerprint(node: str) -> str:
    return fingerprint(keys.public(keys.host_key(node))).split()[1]


def _cluster(into: Path) -> None:
    """Write the lab's inventory into a folder, as a user's: its launcher has the lab's torch."""
    text = (REPOSITORY / "inventories" / "lab.yml").read_text()
    text = text.replace("../.lab/known_hosts", "known_hosts").replace("../.lab", str(roster.STATE))
    launcher = "\n  launcher: {kind: torchrun, python: /usr/bin/python3}\n\ngroups:"
    into.mkdir()
    (into / "site.yml").write_text(text.replace("\ngroups:", launcher))
    shutil.copy(REPOSITORY / "inventories" / "lab.py", into / "site.py")
    pinned = {name: keys.public(keys.host_key(name)) for name in MANAGED}
    (into / "known_hosts").write_text(keys.known_hosts(pinned))


@pytest.fixture
def folder(converged_once: None, tmp_path: Path) -> Iterator[Path]:
    """What a page's lines find in the working directory; the nodes are put back at the end."""
    nodes.put_back(MANAGED, CONVERGED)
    nodes.reset([NEW.name])
    layer.give([*MANAGED, NEW.name])
    _cluster(tmp_path / "site")
    shutil.copytree(tmp_path / "site", tmp_path / "cluster")
    for name in ("deploy", "inventories"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / ".lab").symlink_to(roster.STATE)
    (tmp_path / "logs").mkdir()
    for log in (tmp_path / "train.log", tmp_path / "logs" / "rank0.log"):
        shutil.copy(LOG, log)
    (tmp_path / "train.sh").write_text(LAUNCH)
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8}\n')
    yield tmp_path
    nodes.put_back(MANAGED, CONVERGED)
    nodes.reset([NEW.name])


@pytest.fixture
def environment(folder: Path) -> Mapping[str, str]:
    """The variables that commands.yml names, a state of its own, and the project's commands."""
    names = [*MANAGED, NEW.name]
    accept = " ".join(f"--accept-host-key {name}={_fingerprint(name)}" for name in MANAGED)
    ssh = f"ssh -F none -i {roster.CLIENT_KEY} -o IdentitiesOnly=yes -o BatchMode=yes"
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
        "INIT": f"--key {roster.CLIENT_KEY} {accept}",
        "PASSWORD": roster.password_file(NEW.name).read_text().strip(),
        "SSH": f"{ssh} -o UserKnownHostsFile={roster.KNOWN_HOSTS}",
        **{name.upper().replace("-", "_"): _fingerprint(name) for name in names},
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page(page: str, folder: Path, environment: Mapping[str, str]) -> None:
    """One after the other, in one folder."""
    for line in PAGES[page]:
        if not line.not_run:
            _run(line, folder, environment)


def _run(line: Line, folder: Path, environment: Mapping[str, str]) -> None:
    script = f"{line.before or ':'} && {line.run}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    shown = f"{line.page}: {line.run}\n{done.stdout}{done.stderr}"
    assert done.returncode in line.exit, shown
    assert "Traceback" not in done.stderr, shown
