"""Bytes that a user puts into names, values and files: they forge no record and hide no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.facts.env.start_files import BLOCKS
from gpu_node.facts.node import AREA_FACTS, SECTIONS, NodeProbe
from gpu_node.facts.probe.frame import MARK, NOT_WHOLE
from gpu_node.facts.probe.managed_block import NODES
from gpu_node.facts.probe.protocol import Reading, read, render
from gpu_node.facts.probe.request import Copied, ProbeRequest
from tests.examples import examples
from tests.shells import as_lines, run

# What some program takes for the end of a line or of a field, and bytes of no coding.
ENDS = [each.encode() for each in "\n\f\v\r\t\x1c\x1d\x1e\x1f\x85\u2028\u2029"]
ODD = [b"\xff", b"\xc3", b"\xed\xa0\x80", b" ", b"\\", b"'", b'"']
# Our marks, and records as sections print them: each has the word `forged`.
RECORDS = [
    f"{MARK} done forged",
    f"{MARK} begin env.file 0 raw 6\nforged\n{MARK} end env.file",
    NOT_WHOLE,
    *(f"{each.begin}\nexport NCCL_FORGED=1\n{each.end}" for each in (BLOCKS, NODES)),
    "4242424 1 trainer forged open",
    "\tNCCL_FORGED=1",
    "NCCL_FORGED=1",
    "1\texport NCCL_FORGED=1",
    "environment\t/opt/forged\tPATH",
    "segment 1 1 1 600 0 nccl-forged root",
    "127.0.0.9 forged gpu-node:forged",
    "/forged\t0\t1\t1\t0\t/forged",
]
EVERY = b"".join(end + record.encode() + end for end in (*ENDS, b"\xff") for record in RECORDS)
PARTS = st.sampled_from([*ENDS, *ODD, *(each.encode() for each in RECORDS), b"x" * 100])
# Sections in which a user's bytes are, and their areas.
AREAS = ("env", "nccl", "shm", "ssh", "workspace")
ASKED = ("env.", "workspace.", "ssh.authorized", "ssh.known", "nccl.discovered", "shm.use")
_TRAINER = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode("utf-8", "surrogateescape"))
print(flush=True)
time.sleep(60)
"""


@contextmanager
def trainer(name: bytes, value: bytes) -> Iterator[int]:
    """Run a process with a name, an argument and a variable of these bytes."""
    words: list[str | bytes] = [
        "/usr/bin/python3",
        "-c",
        _TRAINER,
        b"python" + name[:9],
        value[:2000],
    ]
    variables = {b"RANK": b"0", b"NCCL_TAGGED": value, b"NCCL_DEBUG": b"INFO"}
    with subprocess.Popen(words, env=variables, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        try:
            yield running.pid
        finally:
            running.kill()


def home_of(folder: Path, text: bytes) -> dict[str, str]:
    """Fill the home that every user has here, and a workspace; return the environment for it."""
    home, work = folder / "home", folder / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".conda").mkdir()
    line = text.replace(b"\n", b"\f")  # the user's own next line is a record of its own
    quoted = line.replace(b"'", b"")
    setting = b"export NCCL_TAGGED='" + quoted + b"'\nexport NCCL_DEBUG=INFO\n"
    for name in (".bashrc", ".profile"):
        (home / name).write_bytes(setting)
    for name in (".nccl.conf", ".deepspeed_env"):
        (home / name).write_bytes(b"NCCL_TAGGED=" + line + b"\nNCCL_DEBUG=INFO\n")
    for name in (".ssh/authorized_keys", ".ssh/known_hosts", ".conda/environments.txt"):
        (home / name).write_bytes(b"/tagged" + line + b"\n")
    work.mkdir()
    (work / "plain").touch()
    (work / f"tagged{os.fsdecode(text.replace(b'/', b'|')[:200])}").touch()
    getent = shutil.which("getent")
    (folder / "getent").write_text(
        f'#!/bin/sh\n[ "$1" = passwd ] || exec {getent} "$@"\n'
        f"{getent} \"$@\" | awk -F: -v OFS=: -v home={home} '{{ $6 = home; print }}'\n"
    )
    (folder / "getent").chmod(0o755)
    session = {"NCCL_TAGGED": os.fsdecode(text), "NCCL_DEBUG": "INFO"}
    return {"PATH": f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), **session}


def asked(text: bytes) -> tuple[dict[str, Any], dict[str, str], int]:
    """Return the state of a node whose user has written some bytes, and the trainer's pid."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        variables = home_of(folder, text)
        pid = stack.enter_context(trainer(text, text))
        stack.enter_context(trainer(b"", b"plain"))
        fact = NodeProbe()
        work = str(folder / "work")
        request = ProbeRequest(
            mesh=True,
            logins=False,
            variables=("NCCL_TAGGED", "NCCL_DEBUG"),
            directories=(work,),
            below=((work, "777"),),
            workspace=Copied(path=work, origin=work, source=""),
        )
        sections = [each for each in fact.sections_for(request) if each.name.startswith(ASKED)]
        lines = as_lines(run("dash", render(sections), env=variables).stdout)
    readings = read(lines, sections)
    for each in SECTIONS:
        readings.sections.setdefault(each.name, Reading(0, "", "not asked"))
    state = {area: AREA_FACTS[area].parse(readings).model_dump(mode="json") for area in AREAS}
    unread = {each.section: each.reason for each in readings.unread if each.reason != "not asked"}
    return state, unread, pid


def others(value: Any) -> Any:
    """Return a state without the records that have a tagged text."""
    if isinstance(value, dict):
        kept = {key: others(each) for key, each in value.items() if "tagged" not in key.lower()}
        return {} if "NCCL_TAGGED" in value.values() else kept
    if isinstance(value, list):
        return [others(each) for each in value if "tagged" not in json.dumps(each).lower()]
    return "" if isinstance(value, str) and "tagged" in value else value


def check(text: bytes) -> None:
    """Fail if bytes of a user make a record, or a section unreadable."""
    state, unreadable, pid = asked(text)
    assert unreadable == {}
    assert "forged" not in json.dumps(others(state)).lower()
    names = [each["name"] for each in state["env"]["settings"] if not each["ours"]]
    assert names.count("NCCL_DEBUG") == names.count("NCCL_TAGGED") > 0
    assert [each for each in state["env"]["processes"] if each["pid"] == pid]
    assert state["env"]["launcher"]["NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize("text", [b"plain", EVERY], ids=["plain", "every"])
def test_each_end_of_a_line(text: bytes) -> None:
    """All at once, each with each record of ours behind it."""
    check(text)


@given(st.lists(PARTS, max_size=12).map(b"".join))
@settings(max_examples=examples(20), deadline=None)
def test_any_bytes_of_a_user(text: bytes) -> None:
    """In any order."""
    check(text)
