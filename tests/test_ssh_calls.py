"""Every ssh and rsync that we start accepts only pinned host keys, and forwards no agent."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from gpu_node.deploy.workspace import rsync as copying
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import logins
from gpu_node.facts.ssh.options import STRICT
from gpu_node.verify import plan
from tests.strings import constants, tree
from tests.test_rooms import MODULES, REPOSITORY

OURS = [path for path in MODULES if path.relative_to(REPOSITORY).parts[0] != "lab"]
SCRIPTS = [
    REPOSITORY / name
    for name in subprocess.run(
        ["git", "ls-files", "deploy/*.sh", "facts/*.sh", "onboarding/*.sh", "verify/*.sh"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
]
WANTED = ("StrictHostKeyChecking=yes", "ForwardAgent=no", "ClearAllForwardings=yes")
# ssh as a command of sh, up to the end of its line and of those that it goes on in.
IN_SH = re.compile(
    r"(?:^|[;&|({]\s*|\b(?:both|exec|then|do|limited \S+(?: \S+)?)\s+)(?:ssh|scp|sftp|sshfs)\s+"
    r"(?:[^\n\\]|\\.|\\\n)*",
    re.MULTILINE,
)
# They print ssh's configuration, and do not connect.
LOOKS = re.compile(r"\bssh\s+(?:-F \S+ )?-G\b")
PROGRAMS = {"ssh", "scp", "sftp", "sshfs"}


def calls_in_sh(text: str) -> list[str]:
    """Return the calls of ssh in a text of sh that connect."""
    found = [each[0] for each in IN_SH.finditer(text) if " " in each[0].strip()]
    return [each for each in found if not LOOKS.search(each)]


def words_of(node: ast.expr) -> list[str]:
    """Return the words of a list, those of lists within it, and the names that it unpacks."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.Starred):
        return words_of(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [word for each in node.elts for word in words_of(each)]
    return [ast.unparse(node)]


def test_calls_in_sh() -> None:
    """In our scripts, and in those that are texts of a module; a line of prose is no script."""
    lacking = [
        (str(path), call)
        for path in (*OURS, *SCRIPTS)
        for text in (constants(path) if path.suffix == ".py" else [path.read_text()])
        if "\n" in text or text.startswith("ssh -")
        for call in calls_in_sh(text)
        if not all(each in call for each in WANTED)
    ]
    assert lacking == []


def is_loose(words: list[str]) -> bool:
    """Whether a list begins with ssh without STRICT, or gives rsync its ssh in another way."""
    # Names of areas and options are no command.
    if words[0] in PROGRAMS and any(word.startswith("-") for word in words[1:]):
        return "STRICT" not in words
    is_given_ssh = any(word.startswith("shlex.join(") for word in words)
    if "-e" in words and (words[0] == "rsync" or is_given_ssh):
        return words[words.index("-e") + 1] != "shlex.join(ssh)"
    return False


def test_calls_by_words() -> None:
    """A list that begins with ssh unpacks STRICT; rsync gets its ssh by -e, in no other way."""
    assert is_loose(["ssh", "-n", "node"]) and not is_loose(["ssh", "scp"])
    assert is_loose(["rsync", "-e", "ssh"]) and not is_loose(["rsync", "-e", "shlex.join(ssh)"])
    loose = [
        (str(path), ast.unparse(node))
        for path in OURS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.List | ast.Tuple) and words_of(node) and is_loose(words_of(node))
    ]
    assert loose == []


def test_the_calls_are_found() -> None:
    """The control: the tree has such calls, and a missing option would be found."""
    in_modules = [text for path in OURS for text in constants(path)]
    in_files = [path.read_text() for path in SCRIPTS]
    found = [call for text in (*in_modules, *in_files) for call in calls_in_sh(text)]
    assert any("limited" in call and WANTED[0] in call for call in found)
    assert calls_in_sh("x && ssh -n node true\n") == ["& ssh -n node true"]
    assert calls_in_sh("ssh \\\n -p 22 node\nx") == ["ssh \\\n -p 22 node"]
    assert calls_in_sh('ssh -G "$1"\n') == []


PEERS = (Peer(name="a", address="192.0.2.1"), Peer(name="b", address="192.0.2.2", port=2222))


def started() -> dict[str, str]:
    """Return each of our calls as it is made."""
    placements = tuple(plan.Placement(each, "/usr/bin/python3", "2.1.0", 2) for each in PEERS)

    def start(kind: str) -> plan.Start:
        return plan.Start("r", kind, placements, 29500, "nccl", 1024, 60)

    return {
        "the controller's rsync": " ".join(copying.ssh_to({"ssh_port": 22}, "localhost")),
        "the mesh's logins": logins.script(ProbeRequest(nodes=PEERS, address="192.0.2.1")),
        "torchrun's": " ".join(next(plan.commands(start("torchrun")))),
        **{
            name: next(line for line in plan.script(start("mpirun")).splitlines() if name in line)
            for name in ("PDSH_SSH_ARGS_APPEND", "OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")
        },
    }


@pytest.mark.parametrize("name", started())
def test_what_is_started(name: str) -> None:
    """Each has the options."""
    call = started()[name]
    assert all(each in call for each in WANTED), call


def test_ssh_understands_them() -> None:
    """As ssh prints them, whatever a user's configuration has."""
    lines = subprocess.run(
        ["ssh", "-F", "/dev/null", *STRICT, "-G", "localhost"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {"stricthostkeychecking true", "forwardagent no", "batchmode yes"} <= set(lines)
    assert {"clearallforwardings yes", "forwardx11 no"} <= set(lines)
