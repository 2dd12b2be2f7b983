"""An operation that ends without an error and changes nothing fails, and is not a success."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import fork_server

WORK = """
from pyinfra import host
from pyinfra.api import FunctionCommand, StringCommand, operation
from pyinfra.facts.files import File
from gpu_node.deploy.engine.contained import contain
from gpu_node.deploy.engine.effect import unchecked
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.engine.interruption import watch


def report(state, host):
    return True


@operation()
def made(path, command, only_reports=False):
    if host.get_fact(File, path=path):
        host.noop("it is there")
        return
    yield StringCommand(command)
    if only_reports:
        yield unchecked(FunctionCommand(report, [], {}))


@operation()
def reported():
    yield unchecked(FunctionCommand(report, [], {}))


watch(host.state)
contain(host.state)
WORDS
"""
SECONDS = 60
IN_AREA = "**alone(host, 'shm', 60)"
CASES = {
    "nothing": (f"made(name='Make it', path='F', command='true', {IN_AREA})", 0, 1),
    "what is undone at once": (
        f"made(name='Make it', path='F', command='touch F; rm F', {IN_AREA})",
        *(0, 1),
    ),
    "nothing, and a report": (
        f"made(name='Make it', path='F', command='true', only_reports=True, {IN_AREA})",
        *(0, 1),
    ),
    "the change": (f"made(name='Make it', path='F', command='touch F', {IN_AREA})", 1, 0),
    "a report alone": (f"reported(name='Make it', {IN_AREA})", 1, 0),
    "outside of all areas": ("made(name='Make it', path='F', command='true')", 1, 0),
}


@pytest.mark.parametrize(("words", "successes", "complaints"), CASES.values(), ids=CASES)
def test_what_has_an_effect(tmp_path: Path, words: str, successes: int, complaints: int) -> None:
    """What it was to make is missing afterwards: it says so, and the area has failed."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    text = WORK.replace("WORDS", words.replace("F'", f"{tmp_path}/made'"))
    text = text.replace("touch F", f"touch {tmp_path}/made").replace("rm F", f"rm {tmp_path}/made")
    (tmp_path / "work.py").write_text(text)
    run = ["pyinfra", "-y", "site.py", "work.py"]
    done = fork_server.run(*run, cwd=tmp_path, env=dict(os.environ), seconds=SECONDS)
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed
    assert printed.count("[@local] Success") == successes, printed
    assert printed.count("Make it: ended without an error and changed nothing") == complaints
    assert printed.count("shm: failed") == complaints
