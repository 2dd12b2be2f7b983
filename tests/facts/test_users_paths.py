"""What a user puts in the place of a file: root reads and runs none of it, and waits for nothing.

The paths are those that each section uses, as strace shows them; see users_paths.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest

from gpu_node.facts.node import parse
from gpu_node.facts.probe.protocol import Section, read
from tests.facts.users_paths import CANARY, KINDS, SECONDS, Machine, machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed"),
]
ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# A section that waits for nothing.
AT_ONCE = 3


@dataclass
class Found:
    """What the machine answered, and what it was asked."""

    machine: Machine
    asked: dict[str, Section]
    answers: dict[str, Any]

    def texts(self, answer: dict[str, Any], names: list[str]) -> dict[str, str]:
        """The text of each section of an answer."""
        readings = read(answer["text"].split("\n"), [self.asked[name] for name in names])
        return {name: readings.sections[name].text for name in names}

    def unreadable(self, answer: dict[str, Any], names: list[str]) -> dict[str, str]:
        """Why each section of an answer cannot be used."""
        state = parse(answer["text"].split("\n"), list(self.asked.values()))
        return {each.section: each.reason for each in state.unreadable if each.section in names}


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    """All answers of a machine with such a user."""
    folder = Path(mkdtemp(prefix="gpu-node-hostile-"))
    folder.chmod(0o755)
    try:
        made = machine(folder)
        words = [*ALONE, sys.executable, "-m", "tests.facts.users_paths", str(folder)]
        done = subprocess.run(words, capture_output=True, check=False, timeout=900)
        assert done.returncode == 0, done.stderr[-4000:].decode()
        yield Found(made, {each.name: each for each in made.sections()}, json.loads(done.stdout))
    finally:
        rmtree(folder)


def test_the_paths_are_those_of_the_sections(found: Found) -> None:
    """What a user has is really used, and every section answers before anything is planted."""
    made, planted = found.machine, {each["path"] for each in found.answers["planted"]}
    assert len(planted) >= 60
    assert planted >= {
        *(str(made.home / name) for name in (".bashrc", ".nccl.conf", ".ssh/config", ".gitconfig")),
        *(str(made.runtime / "docker.pid"), str(made.home / ".config/docker/daemon.json")),
        *(str(made.environment / "bin/python3"), str(made.work / "code/model.safetensors")),
    }
    before = found.answers["before"]
    reasons = [reason for name in before for reason in found.unreadable(before[name], [name])]
    assert not reasons


def test_root_opens_and_runs_nothing_of_a_user(found: Found) -> None:
    """A file is read as its owner, so that no link in its place leads to one of root."""
    assert found.answers["opened by root"] == {}


def test_root_reads_no_file_that_a_process_of_a_user_names(found: Found) -> None:
    """Such as one called dockerd, by its command line."""
    assert not [name for name, each in found.answers["before"].items() if CANARY in each["text"]]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_place_of_a_file(kind: str, found: Found) -> None:
    """Each section ends in time with a readable reason, and what others have is there."""
    problems = []
    roots = found.answers["before"]["shm.docker"]["text"].partition("daemon\trootless")[0]
    roots = roots[roots.index("daemon\troot") :]
    for each in found.answers["planted"]:
        if each["kind"] != kind:
            continue
        path, names = each["path"], each["sections"]
        texts, reasons = found.texts(each, names), found.unreadable(each, names)
        if CANARY in each["text"] or any(CANARY in text for text in texts.values()):
            problems.append(f"{path}: the text of root's file is in an answer")
        own = [name for name in names if not found.asked[name].light]
        if each["seconds"] > AT_ONCE + (SECONDS + 1) * len(own):
            problems.append(f"{path}: {names} take {each['seconds']:.1f} s")
        for name, reason in reasons.items():
            is_named = any(str(part) in reason for part in (path, Path(path).parent))
            if not reason.isprintable() or (found.asked[name].light and not is_named):
                problems.append(f"{path}: {name}: {reason}")
        if "shm.docker" in names and roots not in each["text"]:
            problems.append(f"{path}: root's docker is not in the answer")
    assert not problems
