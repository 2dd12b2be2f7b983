"""Every line of shell that reaches a node: parsed by each shell, and read by shellcheck."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_node.deploy.env.operations import BASH_CHECK
from gpu_node.deploy.shm.operations import _VERIFY
from gpu_node.facts.host import settings
from gpu_node.facts.job import state as job
from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.node import SECTIONS
from gpu_node.facts.probe.owner import OWNER
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import render
from gpu_node.facts.probe.request import JobAsked, Joining, ProbeRequest
from gpu_node.facts.ssh import mesh, scans
from tests.facts import preflight
from tests.shells import SHELLS

# SC1091: /etc/os-release is on the node, not here.
# SC2015: `A && B || C` is meant where C is right whichever of A and B fails.
# SC2016: a section is an argument in single quotes, to be expanded by its own shell.
# SC2154: gn_preload is set where the probe begins.
# SC2012: ls -l prints the target of a link of /proc; only GNU find can.
# SC2089, SC2090: the script that sudo gets is for another shell, which reads its quotes.
# SC1003: a section of a backslash and a quote, in quotes once more.
EXCLUDED = "SC1003,SC1091,SC2012,SC2015,SC2016,SC2089,SC2090,SC2154"
# What is sent has no comments: comments of the files leave these codes out, each for a reason.
BY_COMMENT = "SC2010,SC2034,SC2086,SC3013"
REPOSITORY = Path(__file__).parents[2]
ROOMS = ("deploy", "facts", "inventories", "onboarding", "verify")
SCRIPTS = {
    str(path.relative_to(REPOSITORY)): path.read_text()
    for room in ROOMS
    for path in sorted((REPOSITORY / room).rglob("*.sh"))
}
COMMANDS = {section.name: section.command for section in SECTIONS}
ENVIRONMENT = nccl.sections(ProbeRequest(environments=["/e"]))[-1]
NAMED = ProbeRequest(
    nodes=(Peer(name="a", address="192.0.2.1"), Peer(name="b", address="::2", port=2))
)
SET = ProbeRequest(sysctl=("vm.x", "vm.y"), modules=("a_b", "c"), services=("a", "b"))
JOB = ProbeRequest(user="train", trains_apart=True, job=JobAsked(programs=("torchrun",)))
PIECES = {
    "the whole probe": render(SECTIONS),
    "the whole probe with sudo": render(SECTIONS, sudo=True),
    "the check of fstab": _VERIFY,
    "the check of bashrc": BASH_CHECK,
    **COMMANDS,
    # What is asked about others is left out where there are none.
    **{f"{each.name} of two nodes": each.command for each in mesh.sections(NAMED)},
    **{f"{each.name} of a newcomer": each.command for each in preflight.SECTIONS},
    **{each.name: each.command for each in settings.sections(SET)},
    **{f"{each.name} of a job": each.command for each in job.sections(JOB)},
    "what runs as its owner": OWNER,
    "what an environment is asked": "\n".join(text for _, text in ENVIRONMENT.shared[1:]),
    "the scan of two nodes": scans.section(Joining(NAMED.nodes[0], tuple(NAMED.nodes))).command,
    **SCRIPTS,
}


def test_there_is_something_to_check() -> None:
    """An empty folder would make the tests below say nothing."""
    assert len([name for name in SCRIPTS if name.startswith("deploy/")]) > 40
    assert len([name for name in SCRIPTS if name.startswith("facts/")]) > 70
    assert len(COMMANDS) == len(SECTIONS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The path of each piece's file, and the piece."""
    folder = tmp_path_factory.mktemp("pieces")
    files = {str(folder / f"{number}.sh"): piece for number, piece in enumerate(PIECES)}
    for file, piece in files.items():
        Path(file).write_text(PIECES[piece])
    return files


@pytest.mark.parametrize("each_shell", SHELLS)
def test_each_shell_can_parse_them(each_shell: str, files: dict[str, str]) -> None:
    """`sh -n` finds no error; one process starts all of them."""
    program, *options = SHELLS[each_shell]
    command = " ".join([str(shutil.which(program)), *options, "-n"])
    loop = f'for file; do {command} "$file" >"$file.out" 2>&1; echo "$?"; done'
    done = subprocess.run(["sh", "-c", loop, "sh", *files], capture_output=True, text=True)
    codes = zip(files, done.stdout.split(), strict=True)
    parsed = {files[file]: (code, Path(f"{file}.out").read_text()) for file, code in codes}
    assert {piece: each for piece, each in parsed.items() if each != ("0", "")} == {}


def test_shellcheck_has_no_objection(files: dict[str, str]) -> None:
    """Nothing but POSIX sh, and none of its traps; two calls check all: its start takes longest."""
    found = []
    for excluded, pieces in {
        EXCLUDED: SCRIPTS.keys(),
        f"{EXCLUDED},{BY_COMMENT}": PIECES.keys() - SCRIPTS.keys(),
    }.items():
        names = [file for file, piece in files.items() if piece in pieces]
        words = ["shellcheck", "-s", "sh", "-e", excluded, "-f", "json", *names]
        done = subprocess.run(words, capture_output=True, text=True)
        listed = json.loads(done.stdout)
        # 0: nothing to report; 1: something. Anything else is no check at all.
        assert (done.returncode, done.stderr) == (int(bool(listed)), ""), done
        found += [
            f"{files[each['file']]}:{each['line']}: SC{each['code']} {each['message']}"
            for each in listed
        ]
    assert found == []
